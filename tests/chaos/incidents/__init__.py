"""The incident drill: incidents are brought about from outside, and the alerts of the chart have to name them.

Real workers with the scripted engine, on Apache Kafka and Redis; a real Prometheus with the rules that the chart
renders, in which every time that Prometheus waits is shorter by one factor (`rules.py`). `catalogue.py` has the
incidents, each with the alert that it must raise.
"""
