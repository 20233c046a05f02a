"""Composition roots of the functions: one handler per folder, all built by wiring.py."""
