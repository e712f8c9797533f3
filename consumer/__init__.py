"""The worker: scoring requests in from Kafka, scores out to Kafka and Redis. Start reading in flow.py."""
