"""The fixed part of a RecordBatch v2 (docs/formats/record_batch.md): parse it, walk it, patch it.

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

Since the CRC begins after the offset and the epoch, a log gives a batch its place without reading what is in it.
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
    """Read the header of the batch that starts at `position`; the batch must lie in the buffer whole.

    Raises FormatError: CORRUPT_MESSAGE where bytes are missing or the length is impossible,
    UNSUPPORTED_FOR_MESSAGE_FORMAT for a magic other than 2.
    """
    available = len(buf) - position
    if position < 0 or available < LENGTH_PREFIX_BYTES + 5:
        raise FormatError(f"a batch header is cut off: {max(available, 0)} bytes are left")
    magic = memoryview(buf)[position + 16]
    if magic != MAGIC:
        raise FormatError(
            f"message format {magic} is not served, only 2 (Kafka 0.11 and later)",
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        )
    if available < BATCH_HEADER_BYTES:
        raise FormatError(f"a batch header is cut off: {available} bytes are left")
    header = BatchHeader(*HEADER.unpack_from(buf, position))
    if header.size_bytes < BATCH_HEADER_BYTES:
        raise FormatError(f"a batch length of {header.batch_length} is too small for its header")
    if header.size_bytes > available:
        raise FormatError(f"a batch of {header.size_bytes} bytes is cut off after {available}")
    return header


def iter_headers(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each whole batch; a last batch that is cut off is left out, as a fetch may cut it.

    Raises FormatError as `parse_header` where a whole batch is not one.
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
    """The CRC-32C that the batch at `position` should carry."""
    return crc32c(memoryview(batch)[position + CRC_START : position + header.size_bytes])


def check_crc(batch: Buffer, position: int, header: BatchHeader) -> None:
    """Raises FormatError(CORRUPT_MESSAGE) where the batch's bytes are not those that its producer summed."""
    if crc_of(batch, position, header) != header.crc:
        raise FormatError("a batch does not match its CRC-32C")


def patch_offsets(batch: Buffer, base_offset: int, leader_epoch: int) -> list[Buffer]:
    """The same batch at another place of a log, as parts to be sent one after the other; the payload is not copied.

    The batch must be whole and alone in the buffer (`validate_batches` saw it). Raises FormatError where it is shorter
    than a header.
    """
    view = memoryview(batch)
    if len(view) < BATCH_HEADER_BYTES:
        raise FormatError(f"a batch header is cut off: {len(view)} bytes are left")
    return [_PREFIX.pack(base_offset, len(view) - LENGTH_PREFIX_BYTES, leader_epoch), view[_PREFIX.size :]]


def patch_log_append_time(batch: Buffer, timestamp_ms: int) -> bytes:
    """The same batch under LogAppendTime: all its records carry `timestamp_ms`. The CRC is made anew.

    Raises FormatError where the batch is shorter than a header.
    """
    if len(batch) < BATCH_HEADER_BYTES:
        raise FormatError(f"a batch header is cut off: {len(batch)} bytes are left")
    patched = bytearray(batch)
    (attributes,) = _ATTRIBUTES.unpack_from(patched, CRC_START)
    _ATTRIBUTES.pack_into(patched, CRC_START, attributes | LOG_APPEND_TIME_FLAG)
    _TIMESTAMP.pack_into(patched, 35, timestamp_ms)
    CRC_FIELD.pack_into(patched, _CRC_AT, crc32c(memoryview(patched)[CRC_START:]))
    return bytes(patched)
