"""Joins two streams on records that are close in time."""
