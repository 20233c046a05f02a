"""`odradek connect`: workers, connectors, plugins."""
