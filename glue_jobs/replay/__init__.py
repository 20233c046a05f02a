"""Writes a table to a topic in the order and at the pace of its events."""
