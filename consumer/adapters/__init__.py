"""All I/O: the only modules that import aiokafka, vllm or redis."""
