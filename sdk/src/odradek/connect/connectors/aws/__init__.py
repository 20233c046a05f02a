"""Connectors to services of AWS."""
