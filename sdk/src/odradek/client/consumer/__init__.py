"""consumer: see the modules."""
