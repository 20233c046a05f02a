"""The source: from offsets to ranges that one task reads, and from a range to Arrow record batches.

data_source.py is the thin adapter of PySpark's Python Data Source API; no other module here needs pyspark.
"""
