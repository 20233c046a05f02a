"""Committed offsets: commit, fetch and deletion.

The offsets of consumer-group members are in their leases (offsets.py, decisions.py), those of classic and simple groups
in separate items (classic.py).
"""
