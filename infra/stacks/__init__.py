"""Wiring only: a stack creates constructs and passes one what it needs of another."""
