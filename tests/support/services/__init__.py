"""Functions and embedded services, called, run as processes, and disturbed."""
