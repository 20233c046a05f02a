"""Audit: whether what is stored is whole, from the store alone.

Heads and index rows against each other, the bytes behind them, and what nothing refers to. decisions.py is pure;
repair.py removes or rewrites only what an audit has shown to be safe.
"""
