"""Record batches to Arrow and back: the fast way to many records.

    decode.py    decode_to_arrow: RecordBatch v2s -> one pyarrow.RecordBatch in the columns of Spark's Kafka source
    encode.py    encode_from_arrow: a table with `key`, `value`, `timestamp`, `headers` -> RecordBatch v2s
    schema.py    the columns; names.py has what needs no Arrow
    rows.py      batches to lists of fields, for consumers of single records

Two engines give the same results: `numba` (the extra `fast`) compiles the loops, `python` needs only pyarrow. `auto`
uses numba if it is installed. Nothing is imported here: consumers without pyarrow use rows.py.
"""
