"""maintenance: see the modules."""
