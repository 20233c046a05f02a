"""A stream joined with a compacted topic as a table."""
