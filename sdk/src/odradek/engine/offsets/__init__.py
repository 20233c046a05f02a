"""offsets: see the modules."""
