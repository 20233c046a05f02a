"""read: see the modules."""
