"""What plans need when they run: results that are maintained, and formats with schemas."""
