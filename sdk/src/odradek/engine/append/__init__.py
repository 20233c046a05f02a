"""append: see the modules."""
