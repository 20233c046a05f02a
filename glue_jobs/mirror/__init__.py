"""Mirrors topics of one installation to another."""
