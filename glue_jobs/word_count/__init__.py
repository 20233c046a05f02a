"""Counts the occurrences of words: the first example of every stream library."""
