"""Joins a stream with a compacted topic as a table."""
