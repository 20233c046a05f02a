"""Records: browse, search, tail, export and produce them.

formats.py      bytes of a key or value to what a person reads, and back: JSON, text, hex, Avro, Protobuf
lines.py        a record as a line of JSON, which `odradek produce --json` and the console's export share
expression.py   filters in a small language with Python's syntax; filters.py: all conditions of a search
reading.py      windows of partitions through one consumer
browse.py       a page of records, newest or oldest first, with cursors
search.py       records that match, with progress; tail.py: records as they arrive
export.py       CSV, JSON lines, Parquet; produce.py: records from a form or from lines
"""
