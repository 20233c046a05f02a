"""The state of a Connect cluster, in compacted topics."""
