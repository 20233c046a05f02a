"""Encodes records to a RecordBatch v2, for the SDK's producer, compaction and tests.

    Record =>
        length            varint    bytes after this field
        attributes        int8      0
        timestamp_delta   varlong   to the batch's base timestamp
        offset_delta      varint    to the batch's base offset
        key_length        varint    -1 null
        key
        value_length      varint    -1 null, a tombstone
        value
        header_count      varint
        headers           (key_length varint, key utf-8, value_length varint with -1 null, value) each

`append` takes most of a Python producer's time, so it is flat: lengths come from a table, the bytes of the last
timestamp are kept, and one join builds the record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from odradek.errors import ErrorCode, FormatError
from odradek.format.batch_header import (
    CRC_FIELD,
    CRC_START,
    HEADER,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    TRANSACTIONAL_FLAG,
)
from odradek.format.compression import compress
from odradek.format.crc import crc32c
from odradek.format.varint import NULL, SMALL, SMALL_MAX, encode_varlong
from odradek.limits import BATCH_HEADER_BYTES, HEADERS_PER_RECORD_MAX
from odradek.model.log import Buffer
from odradek.model.record import CompressionType, Header, Record, TimestampType

_NO_HEADERS = b"\x00"
_TIMESTAMP_MIN, _TIMESTAMP_MAX = -(1 << 63), (1 << 63) - 1
_BODY_BYTES_MAX = 2**31 - 1 - BATCH_HEADER_BYTES


class RecordBatchBuilder:
    """Collects records and builds one batch of them. `build` may be called again with other producer fields.

    Args:
        compression_type: of the whole batch.
        compression_level: as in KIP-390; None takes the default of `compression.LEVELS`.
        timestamp_type: LOG_APPEND_TIME only for batches that a log writes itself: a produce server refuses it.
        batch_bytes_max: `append` refuses a record, except the first, with which `estimated_size` would be larger; None:
            2 GiB.
    """

    __slots__ = (
        "_base_timestamp",
        "_body",
        "_body_bytes_max",
        "_compression_level",
        "_compression_type",
        "_last_timestamp",
        "_last_timestamp_bytes",
        "_max_timestamp",
        "_next_delta",
        "_record_count",
        "_timestamp_type",
    )

    def __init__(
        self,
        compression_type: CompressionType = CompressionType.NONE,
        compression_level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        *,
        batch_bytes_max: int | None = None,
    ) -> None:
        self._body_bytes_max = _BODY_BYTES_MAX if batch_bytes_max is None else batch_bytes_max - BATCH_HEADER_BYTES
        self._compression_type = compression_type
        self._compression_level = compression_level
        self._timestamp_type = timestamp_type
        self._body = bytearray()
        self._record_count = 0
        self._next_delta = 0
        self._base_timestamp: int | None = None
        self._max_timestamp = _TIMESTAMP_MIN
        self._last_timestamp: int | None = None
        self._last_timestamp_bytes = b""

    @property
    def record_count(self) -> int:
        return self._record_count

    @property
    def estimated_size(self) -> int:
        """Bytes of the batch without compression: exact for NONE, otherwise nearly always more than the final size."""
        return BATCH_HEADER_BYTES + len(self._body)

    @property
    def body(self) -> bytearray:
        """The uncompressed records. Callers must not change them."""
        return self._body

    @property
    def base_timestamp_ms(self) -> int:
        """The first record's timestamp; 0 without records."""
        return self._base_timestamp or 0

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp so far; the smallest of 64 bits without records."""
        return self._max_timestamp

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> int:
        """Add a record; return its offset delta in the batch, or -1 if the full batch refuses it.

        Raises FormatError(INVALID_RECORD) for a timestamp beyond 64 bits or too many headers, TypeError if key, value
        or a header are not bytes. The batch is unchanged then.
        """
        delta = self._next_delta
        if timestamp_ms != self._last_timestamp:
            self._set_timestamp(timestamp_ms)
        # One join of a few small parts is the fastest way to build a record in pure Python.
        if key is None:
            key_length, key = NULL, b""
        else:
            size = len(key)
            key_length = SMALL[size] if size < SMALL_MAX else encode_varlong(size)
        if value is None:
            value_length, value = NULL, b""
        else:
            size = len(value)
            value_length = SMALL[size] if size < SMALL_MAX else encode_varlong(size)
        record = b"".join(
            (
                self._last_timestamp_bytes,
                SMALL[delta] if delta < SMALL_MAX else encode_varlong(delta),
                key_length,
                key,
                value_length,
                value,
                _encode_headers(headers) if headers else _NO_HEADERS,
            )
        )
        size = len(record)
        length = SMALL[size] if size < SMALL_MAX else encode_varlong(size)
        body = self._body
        if len(body) + len(length) + size > self._body_bytes_max and body:
            return -1
        body += length
        body += record
        if timestamp_ms > self._max_timestamp:
            self._max_timestamp = timestamp_ms
        self._next_delta = delta + 1
        self._record_count += 1
        return delta

    def build(
        self,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        base_offset: int = 0,
    ) -> bytes:
        """Build the batch of the appended records.

        Raises FormatError: INVALID_RECORD if there are none, or if a field is out of range.
        """
        if not self._record_count:
            raise FormatError("a record batch needs at least one record", ErrorCode.INVALID_RECORD)
        return self._pack(
            compress(self._compression_type, self._body, self._compression_level),
            base_offset,
            self._next_delta - 1,
            (producer_id, producer_epoch, base_sequence),
            is_transactional,
            -1,
        )

    def _set_timestamp(self, timestamp_ms: int) -> None:
        if self._base_timestamp is None or not self._record_count:
            self._base_timestamp = timestamp_ms
        delta = timestamp_ms - self._base_timestamp
        if not _TIMESTAMP_MIN <= timestamp_ms <= _TIMESTAMP_MAX:
            raise FormatError(f"the timestamp {timestamp_ms} does not fit 64 bits", ErrorCode.INVALID_RECORD)
        # Preceded by the record's attributes, which are always 0.
        self._last_timestamp_bytes = b"\x00" + encode_varlong(delta)
        self._last_timestamp = timestamp_ms

    def _pack(
        self,
        payload: bytes,
        base_offset: int,
        last_offset_delta: int,
        producer: tuple[int, int, int],
        is_transactional: bool,
        leader_epoch: int,
    ) -> bytes:
        attributes = int(self._compression_type)
        if self._timestamp_type is TimestampType.LOG_APPEND_TIME:
            attributes |= LOG_APPEND_TIME_FLAG
        if is_transactional:
            attributes |= TRANSACTIONAL_FLAG
        return pack_batch(
            payload,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            attributes=attributes,
            last_offset_delta=last_offset_delta,
            base_timestamp_ms=self.base_timestamp_ms,
            max_timestamp_ms=self._max_timestamp,
            producer=producer,
            record_count=self._record_count,
        )


def encode_batch(
    records: Iterable[Record],
    *,
    compression_type: CompressionType = CompressionType.NONE,
    compression_level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    base_offset: int | None = None,
    last_offset: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    leader_epoch: int = -1,
) -> bytes:
    """Build one batch of records that keep their offsets, which may have gaps, as after compaction.

    Args:
        base_offset: of the batch; None takes the first record's.
        last_offset: of the batch; None takes the last record's. A compacted batch keeps that of the original.

    Raises FormatError(INVALID_RECORD): no records, or offsets that do not increase or are outside the batch.
    """
    builder = RecordBatchBuilder(compression_type, compression_level, timestamp_type)
    last_delta = -1
    for record in records:
        if base_offset is None:
            base_offset = record.offset
        delta = record.offset - base_offset
        if delta <= last_delta:
            raise FormatError(f"the offset {record.offset} does not increase in its batch", ErrorCode.INVALID_RECORD)
        builder._next_delta = delta
        if builder.append(record.timestamp_ms, record.key, record.value, record.headers) < 0:
            raise FormatError("a record batch cannot hold more than 2 GiB", ErrorCode.INVALID_RECORD)
        last_delta = delta
    if base_offset is None or not builder.record_count:
        raise FormatError("a record batch needs at least one record", ErrorCode.INVALID_RECORD)
    if last_offset is not None:
        if last_offset - base_offset < last_delta:
            raise FormatError(f"the last offset {last_offset} is before the last record", ErrorCode.INVALID_RECORD)
        last_delta = last_offset - base_offset
    return builder._pack(
        compress(compression_type, builder._body, compression_level),
        base_offset,
        last_delta,
        (producer_id, producer_epoch, base_sequence),
        is_transactional,
        leader_epoch,
    )


def pack_batch(
    payload: Buffer,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    producer: tuple[int, int, int],
    record_count: int,
) -> bytes:
    """Add the header to a payload that is already compressed. `producer` is id, epoch and base sequence.

    Raises FormatError(INVALID_RECORD) if a field is out of range.
    """
    try:
        header = bytearray(
            HEADER.pack(
                base_offset,
                BATCH_HEADER_BYTES - LENGTH_PREFIX_BYTES + len(payload),
                leader_epoch,
                MAGIC,
                0,  # the CRC, below
                attributes,
                last_offset_delta,
                base_timestamp_ms,
                max_timestamp_ms,
                *producer,
                record_count,
            )
        )
    except struct.error as error:
        raise FormatError(f"a field of the batch is out of range: {error}", ErrorCode.INVALID_RECORD) from error
    CRC_FIELD.pack_into(header, CRC_START - CRC_FIELD.size, crc32c(memoryview(header)[CRC_START:], payload))
    return b"".join((header, payload))


def _encode_headers(headers: Sequence[Header]) -> bytes:
    if len(headers) > HEADERS_PER_RECORD_MAX:
        raise FormatError(
            f"a record may have at most {HEADERS_PER_RECORD_MAX} headers, not {len(headers)}", ErrorCode.INVALID_RECORD
        )
    parts = [encode_varlong(len(headers))]
    for key, value in headers:
        name = key.encode()
        parts += (encode_varlong(len(name)), name)
        if value is None:
            parts.append(NULL)
        else:
            parts += (encode_varlong(len(value)), value)
    return b"".join(parts)
