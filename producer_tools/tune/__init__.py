"""Find out which engine settings are fastest on this machine, with this model and these lengths."""
