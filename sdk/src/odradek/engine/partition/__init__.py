"""partition: see the modules."""
