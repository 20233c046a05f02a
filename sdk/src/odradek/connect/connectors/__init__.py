"""Connectors of the wheel; a connector's libraries are an extra."""
