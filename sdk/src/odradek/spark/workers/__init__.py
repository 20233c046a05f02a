"""Spark's Python workers: whether their Python has odradek, and what makes their tasks start fast."""
