"""Command line tools around the topics: they need neither the worker's code nor its engine."""
