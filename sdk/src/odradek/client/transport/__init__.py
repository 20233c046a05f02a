"""transport: see the modules."""
