"""What the loaded model is and can do, found out from its files before anything is started.

A model that is not recognised is refused: a wrong pooling, a missing head or a lost prompt gives scores that look fine.
A further family of models is one module with a FAMILY (see candidate.py), and one line in recognise.py.
"""
