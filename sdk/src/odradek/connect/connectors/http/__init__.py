"""HTTP APIs."""
