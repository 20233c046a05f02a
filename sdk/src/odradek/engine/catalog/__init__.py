"""catalog: see the modules."""
