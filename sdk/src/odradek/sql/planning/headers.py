"""Headers of records on their way through a query: one text, NULL for none, as Spark SQL. Pure.

Most records have none. An array of structures is then still written, read, copied, shuffled and kept in state for each
of them, at several times the cost of the columns beside it; a NULL costs nothing. So headers are JSON from the source
to the sink. A text is no value of fixed length, though, which Spark's fast hash aggregate needs: without more it would
sort all records of a micro-batch by group. A function that keeps objects, even of nothing, makes it use a hash table.
"""

from __future__ import annotations

_TYPE = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
_KEEPS_OBJECTS = "try_element_at(collect_set(CAST(NULL AS STRING)), 1)"  # NULL


def packed(headers: str) -> str:
    """Return the text of a record's headers. Args: headers: an array of key and value."""
    return f"IF(size({headers}) > 0, to_json({headers}), NULL)"


def unpacked(text: str) -> str:
    """Return the array of headers of such a text; NULL for none."""
    return f"from_json({text}, '{_TYPE}')"


def of_latest(text: str, order: str) -> str:
    """Return an aggregate: the headers of the record of a group with the largest `order`."""
    return f"coalesce(max_by({text}, {order}), {_KEEPS_OBJECTS})"
