"""classic: see the modules."""
