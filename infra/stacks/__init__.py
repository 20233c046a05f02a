"""Wiring only: a stack makes constructs and hands one what another needs."""
