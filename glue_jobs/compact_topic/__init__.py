"""Compaction of huge partitions on Spark."""
