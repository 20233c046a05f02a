"""Kafka's protocol: messages, the port, bare sockets, broken batches."""
