"""How Kafka and Redis are connected to: TLS, credentials, addresses. The worker's adapters and the tools use it alike.

It stands on the tools' side because they are installed without the worker; it imports nothing else of ours.
"""
