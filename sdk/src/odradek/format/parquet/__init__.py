"""Columnar segments: batches made again from a Parquet file, without Arrow.

segment.py    row groups to batches, and the check of a whole file
pages.py      column chunks to values
"""
