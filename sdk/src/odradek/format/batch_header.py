"""The fixed part of a RecordBatch v2 (docs/formats/record_batch.md): parse, iterate, patch.

    RecordBatch =>
        base_offset             int64    +0   not under the CRC: a log sets it
        batch_length            int32    +8   bytes after this field
        partition_leader_epoch  int32   +12   not under the CRC: a log sets it
        magic                   int8    +16   2
        crc                     uint32  +17   CRC-32C from `attributes` to the end
        attributes              int16   +21   0-2 compression, 3 timestamp type, 4 transactional, 5 control,
                                              6 delete horizon: base_timestamp is one (KIP-534)
        last_offset_delta       int32   +23
        base_timestamp          int64   +27   ms
        max_timestamp           int64   +35   ms
        producer_id             int64   +43   -1 none
        producer_epoch          int16   +51   -1 none
        base_sequence           int32   +53   -1 none
        record_count            int32   +57
        records                         +61   compressed together

The CRC begins after the offset and the epoch, so a log can set both without reading the records.
Source: Apache Kafka's message format, KIP-98.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from odradek.errors import ErrorCode, FormatError
from odradek.format.crc import crc32c
from odradek.limits import BATCH_HEADER_BYTES
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader

MAGIC = 2
LENGTH_PREFIX_BYTES = 12  # base offset and batch length, which `batch_length` does not count
CRC_START = 21  # the CRC covers everything from here
COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

HEADER = struct.Struct(
    ">"
    "q"  # base_offset
    "i"  # batch_length
    "i"  # partition_leader_epoch
    "b"  # magic
    "I"  # crc
    "h"  # attributes
    "i"  # last_offset_delta
    "q"  # base_timestamp
    "q"  # max_timestamp
    "q"  # producer_id
    "h"  # producer_epoch
    "i"  # base_sequence
    "i"  # record_count
)
CRC_FIELD = struct.Struct(">I")  # at +17
_CRC_AT = 17
_PREFIX = struct.Struct(
    ">"
    "q"  # base_offset
    "i"  # batch_length
    "i"  # partition_leader_epoch
)
_LENGTH = struct.Struct(">i")  # at +8
_ATTRIBUTES = struct.Struct(">h")  # at +21
_TIMESTAMP = struct.Struct(">q")  # max_timestamp, at +35

assert HEADER.size == BATCH_HEADER_BYTES, "the picture above and the limit must agree"


def parse_header(buf: Buffer, position: int = 0) -> BatchHeader:
    """Parse the header of the batch that starts at `position`; the buffer must contain the whole batch.

    Raises FormatError: CORRUPT_MESSAGE if bytes are missing or the length is impossible,
    UNSUPPORTED_FOR_MESSAGE_FORMAT for a magic other than 2.
    """
    available = len(buf) - position
    if position < 0 or available < LENGTH_PREFIX_BYTES + 5:
        raise FormatError(f"the batch header is truncated: {max(available, 0)} bytes are left")
    magic = memoryview(buf)[position + 16]
    if magic != MAGIC:
        raise FormatError(
            f"message format {magic} is not supported: use format 2 (Kafka 0.11 and later)",
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        )
    if available < BATCH_HEADER_BYTES:
        raise FormatError(f"the batch header is truncated: {available} bytes are left")
    header = BatchHeader._make(HEADER.unpack_from(buf, position))
    size = header.size_bytes
    if size < BATCH_HEADER_BYTES:
        raise FormatError(f"the batch length {header.batch_length} is too small for the header")
    if size > available:
        raise FormatError(f"the batch of {size} bytes is truncated after {available}")
    return header


def iter_headers(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch, without a truncated last one, which a fetch may contain.

    Raises FormatError as `parse_header` for a batch that is not valid.
    """
    view = memoryview(buf)
    position = 0
    while len(view) - position >= LENGTH_PREFIX_BYTES:
        (batch_length,) = _LENGTH.unpack_from(view, position + 8)
        if batch_length >= 0 and position + LENGTH_PREFIX_BYTES + batch_length > len(view):
            return
        header = parse_header(view, position)
        yield position, header
        position += header.size_bytes


def crc_of(batch: Buffer, position: int, header: BatchHeader) -> int:
    """Return the CRC-32C of the batch at `position`, computed from its bytes."""
    return crc32c(memoryview(batch)[position + CRC_START : position + header.size_bytes])


def check_crc(batch: Buffer, position: int, header: BatchHeader) -> None:
    """Raise FormatError(CORRUPT_MESSAGE) if the batch does not match its CRC."""
    if crc_of(batch, position, header) != header.crc:
        raise FormatError("the batch does not match its CRC-32C")


def patch_offsets(batch: Buffer, base_offset: int, leader_epoch: int) -> list[Buffer]:
    """Return the batch at another offset, as parts to be sent in order; the payload is not copied.

    The buffer must contain exactly one whole batch (`validate_batches` checks it). Raises FormatError if it is shorter
    than a header.
    """
    view = memoryview(batch)
    if len(view) < BATCH_HEADER_BYTES:
        raise FormatError(f"the batch header is truncated: {len(view)} bytes are left")
    return [_PREFIX.pack(base_offset, len(view) - LENGTH_PREFIX_BYTES, leader_epoch), view[_PREFIX.size :]]


def patch_max_timestamp(batches: bytearray, position: int, header: BatchHeader, timestamp_ms: int) -> None:
    """Set the largest timestamp of the batch at `position`, whose header that is, and its CRC."""
    _TIMESTAMP.pack_into(batches, position + 35, timestamp_ms)
    CRC_FIELD.pack_into(batches, position + _CRC_AT, crc_of(batches, position, header))


def patch_log_append_time(batch: Buffer, timestamp_ms: int) -> bytes:
    """Return the batch with LogAppendTime: all its records have `timestamp_ms`. The CRC is recomputed.

    Raises FormatError if the batch is shorter than a header.
    """
    if len(batch) < BATCH_HEADER_BYTES:
        raise FormatError(f"the batch header is truncated: {len(batch)} bytes are left")
    patched = bytearray(batch)
    (attributes,) = _ATTRIBUTES.unpack_from(patched, CRC_START)
    _ATTRIBUTES.pack_into(patched, CRC_START, attributes | LOG_APPEND_TIME_FLAG)
    _TIMESTAMP.pack_into(patched, 35, timestamp_ms)
    CRC_FIELD.pack_into(patched, _CRC_AT, crc32c(memoryview(patched)[CRC_START:]))
    return bytes(patched)
