"""Plugins of LocalStack for host mode. They run in LocalStack's own environment and import nothing of Odradek's."""
