"""Composition roots of the functions: one handler a folder, all made by wiring.py."""
