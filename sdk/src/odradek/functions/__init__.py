"""The Lambda face: function-URL events to Kafka frames and back. See handler.py.

Imports here are paid at every cold start: nothing but the standard library and what the dispatcher needs.
"""
