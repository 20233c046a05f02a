"""messages: see the modules."""
