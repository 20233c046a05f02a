"""Kafka protocol frames: requests and responses over kio's schemas, and the function that owns each API."""
