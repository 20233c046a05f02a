"""producer: see the modules."""
