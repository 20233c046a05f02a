"""share: see the modules."""
