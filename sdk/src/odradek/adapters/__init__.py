"""Implementations of the ports: memory (tests, simulation), embedded (SQLite and files), aws (DynamoDB and S3).

docs/adapters.md explains how to add another.
"""
