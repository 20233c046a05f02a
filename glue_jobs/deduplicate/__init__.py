"""Removes duplicate records of a topic."""
