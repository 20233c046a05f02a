"""groups: see the modules."""
