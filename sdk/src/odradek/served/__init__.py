"""Served tables: the latest row of each key of a compacted topic, read by key (docs/served.md, decision 0050).

definition    what a table is, and its item; generations of rows
keys, rows, positions    how rows are stored; who may write them
follow        the maintainer: from the log of a partition to rows
reads         pull queries, freshness, changes
values, avro  keys and values as JSON has them
tables, api   serve, list, describe, stop, resume, drop; the REST API
sweep         what lost messages left; rows of dropped tables
"""
