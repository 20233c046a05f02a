"""Kafka's RecordBatch v2, the only format of records on the wire and at rest (docs/formats/record_batch.md).

A producer's compressed bytes are stored and returned to consumers: a server parses the 61 bytes of the header and
checks the CRC, and does not decode records on its hot path. This module re-exports

    batch_header        the fixed part: parse, walk, patch offsets
    validation.batches  what a produce server refuses, with Kafka's codes
    record_encoder      records -> batch
    record_decoder      batch -> records
"""

from __future__ import annotations

from odradek.format.batch_header import (
    iter_headers,
    parse_header,
    patch_log_append_time,
    patch_offsets,
)
from odradek.format.record_decoder import Row, batch_payload, decode_batch, decode_batches, decode_rows
from odradek.format.record_encoder import RecordBatchBuilder, encode_batch, pack_batch
from odradek.format.validation.batches import validate_batches

__all__ = [
    "RecordBatchBuilder",
    "Row",
    "batch_payload",
    "decode_batch",
    "decode_batches",
    "decode_rows",
    "encode_batch",
    "iter_headers",
    "pack_batch",
    "parse_header",
    "patch_log_append_time",
    "patch_offsets",
    "validate_batches",
]
