"""Record batches to Arrow and back: the fast way to many records.

    decode_to_arrow      RecordBatch v2s -> one pyarrow.RecordBatch in the columns of Spark's Kafka source
    encode_from_arrow    a table with `key`, `value`, `timestamp`, `headers` -> RecordBatch v2s
    schema, SCHEMA       the columns

Two engines give the same answers: `numba` (the extra `fast`) compiles the loops, `python` needs pyarrow alone. `auto`
takes numba where it is installed. Importing this package imports pyarrow; numba waits for the first call.
"""

from __future__ import annotations

from odradek.columnar.decode import decode_to_arrow
from odradek.columnar.encode import encode_from_arrow
from odradek.columnar.engine import EngineName
from odradek.columnar.schema import COLUMNS, SCHEMA, schema

__all__ = ["COLUMNS", "SCHEMA", "EngineName", "decode_to_arrow", "encode_from_arrow", "schema"]
