"""Whether every request was answered, in order and how often: judged from the topics and from Redis alone."""
