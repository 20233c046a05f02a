"""The sink: tasks upload the rows of a micro-batch, and the driver commits all of them in one step.

writers.py is the thin adapter of PySpark's Python Data Source API; no other module here needs pyspark.
"""
