"""The wire contract, version 1: requests, results, dead letters. Imports nothing else of the project."""
