"""Record batches of format 2 for probes, written here so that no encoder of ours answers for itself.

    batch(record(value=b"v"))                      one plain record
    batch(*records, max_timestamp=-1)              a header that contradicts its records
    batches(data)                                  the headers and the number of records of what a broker returns

Layout: https://kafka.apache.org/documentation/#recordbatch. Compression other than none is left to the caller: `batch`
takes the records' bytes as they are to be stored.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
IS_TRANSACTIONAL, IS_CONTROL, IS_LOG_APPEND_TIME = 0x10, 0x20, 0x08
NOW_MS = 1_700_000_000_000


class Record(NamedTuple):
    """A record; its timestamp in ms, absolute."""

    key: bytes | None = None
    value: bytes | None = b"v"
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int = NOW_MS
    offset_delta: int | None = None  # None: its place in the batch


def batch(
    *records: Record,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    count: int | None = None,
    last_offset_delta: int | None = None,
    magic: int = 2,
    crc_off: int = 0,
    compress: Callable[[bytes], bytes] | None = None,
) -> bytes:
    """Encode a batch. What is given contradicts the records where the caller wants that.

    Args:
        crc_off: added to the checksum.
        compress: applied to the records' bytes.
    """
    records = records or (Record(),)
    base_ms = records[0].timestamp if base_timestamp is None else base_timestamp
    payload = b"".join(_record(index, record, base_ms) for index, record in enumerate(records))
    if compress is not None:
        payload = compress(payload)
    number = len(records) if count is None else count
    body = struct.pack(
        ">hiqqqhii",
        attributes,
        number - 1 if last_offset_delta is None else last_offset_delta,
        base_ms,
        max(record.timestamp for record in records) if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        number,
    )
    checksum = (crc32c.crc32c(body + payload) + crc_off) & 0xFFFFFFFF
    return (
        struct.pack(">qiibI", base_offset, len(body) + len(payload) + 9, leader_epoch, magic, checksum) + body + payload
    )


def _record(index: int, record: Record, base_ms: int) -> bytes:
    parts = [b"\0", _varint(record.timestamp - base_ms)]
    parts.append(_varint(index if record.offset_delta is None else record.offset_delta))
    parts += [_blob(record.key), _blob(record.value), _varint(len(record.headers))]
    for name, value in record.headers:
        parts += [_blob(name.encode()), _blob(value)]
    body = b"".join(parts)
    return _varint(len(body)) + body


def _blob(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


_FIELDS = (
    "baseOffset", "length", "leaderEpoch", "magic", "crc", "attributes", "lastOffsetDelta", "baseTimestamp",
    "maxTimestamp", "producerId", "producerEpoch", "baseSequence", "count",
)  # fmt: skip


def batches(data: bytes | None) -> list[dict[str, Any]]:
    """The headers of the whole batches that a fetch returned, without length; of the checksum whether it is right."""
    rows, position = [], 0
    data = data or b""
    while len(data) - position >= HEADER.size:
        row = dict(zip(_FIELDS, HEADER.unpack_from(data, position), strict=True))
        end = position + 12 + row.pop("length")
        if end > len(data):
            break
        row["is_intact"] = row.pop("crc") == crc32c.crc32c(data[position + 21 : end])
        row.pop("leaderEpoch")
        rows.append(row)
        position = end
    return rows
