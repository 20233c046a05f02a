"""transactions: see the modules."""
