"""What fetches from Kafka bring, read within bounds and with patience: the worker's reading and the tools'."""
