"""admin: see the modules."""
