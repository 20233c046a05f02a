"""access: see the modules."""
