"""Requests that administer topics: creation, deletion, partitions, and the configurations of topics and groups.

Configuration values are checked here against the table of definitions; the engine's catalog stores them.
"""
