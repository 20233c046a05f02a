"""The Lambda functions: function-URL events to Kafka frames and back. See handler.py.

Every import here adds to each cold start: only the standard library and what the dispatcher needs.
"""
