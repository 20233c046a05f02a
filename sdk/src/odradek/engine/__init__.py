"""The engine: Kafka's log, catalog and groups over the ports. See engine.py."""
