"""Record batches to Arrow and back: the fast way to many records.

    decode.py    decode_to_arrow: RecordBatch v2s -> one pyarrow.RecordBatch in the columns of Spark's Kafka source
    encode.py    encode_from_arrow: a table with `key`, `value`, `timestamp`, `headers` -> RecordBatch v2s
    schema.py    the columns
    rows.py      batches to lists of fields, for consumers of single records

Two engines give the same answers: `numba` (the extra `fast`) compiles the loops, `python` needs pyarrow alone. `auto`
takes numba where it is installed. Nothing is imported here: rows.py serves consumers that have no pyarrow.
"""
