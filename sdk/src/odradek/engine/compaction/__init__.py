"""compaction: see the modules."""
