"""What an operator can see: every metric defined once, read from the worker's state when it is asked for."""
