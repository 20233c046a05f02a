"""cost: see the modules."""
