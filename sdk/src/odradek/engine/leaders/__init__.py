"""leaders: see the modules."""
