"""Shared by tests of Connect."""
