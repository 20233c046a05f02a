"""Relational databases, through SQLAlchemy."""
