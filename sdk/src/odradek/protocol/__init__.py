"""Kafka protocol frames: requests and responses over kio's schemas, and which function owns which API."""
