"""EventBridge's patterns: the rules of a pattern, and events that they are held against. Pure.

As AWS's own matcher (event-ruler) has them: tests/peers/filters compares the two.
"""
