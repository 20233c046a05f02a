"""Maintains charts of the most played items, which can be queried."""
