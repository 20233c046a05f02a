"""Audit: the integrity of a store, checked from the store alone.

It compares heads with index rows, reads the bytes behind them, and finds what nothing refers to. decisions.py is pure;
repair.py removes or rewrites only what an audit has shown to be safe.
"""
