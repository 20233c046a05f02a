"""audit: see the modules."""
