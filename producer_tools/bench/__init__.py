"""How fast the pipeline is, beside the engine alone and transformers, on the same requests and the same machine."""
