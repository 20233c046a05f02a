"""The engine: Kafka's log, catalog and groups over the ports. engine.py is its face.

Each package is a verb or a noun of the log; in each, decisions are pure and procedures are loops over ports.
"""
