"""Requests of transactional and idempotent producers: producer ids, partitions, offsets, and the end of a transaction.

The engine decides; the modules map its outcomes to the error codes that Kafka's producers know.
"""
