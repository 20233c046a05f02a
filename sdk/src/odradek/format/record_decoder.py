"""Decodes RecordBatch v2 to records, in pure Python (columnar/ is faster for many of them).

For any bytes, the only exception is FormatError, memory is bounded by the limit of decompression, and time by the size
of the payload: counts and lengths are checked against the remaining bytes before they are used.

Stored batches may be compacted, so fewer records than `last_offset_delta + 1` are not an error. The count in the header
must still be that of the body, offsets must increase, and no byte may be left over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from odradek.errors import ErrorCode, FormatError
from odradek.format.batch_header import COMPRESSION_MASK, check_crc, iter_headers, parse_header
from odradek.format.compression import decompress
from odradek.format.validation.batches import RECORD_BYTES_MIN, records_max
from odradek.format.varint import decode_varint, decode_varlong
from odradek.limits import BATCH_HEADER_BYTES, DECOMPRESSED_BATCH_BYTES_MAX, HEADERS_PER_RECORD_MAX, OFFSET_MAX
from odradek.model.log import Buffer
from odradek.model.record import BatchHeader, CompressionType, Header, Record, TimestampType

Row = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]
"""A record as a plain tuple: offset, timestamp in ms, key, value, headers: the fields of `Record` in order."""

PART_BYTES = 8 * 1024 * 1024  # of decompressed records that a reader decodes at once
PART_ROWS = 100_000  # and their number: an empty record has 7 bytes, and takes hundreds once it is decoded
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


def decode_batch(buf: Buffer, position: int = 0, *, verify_crc: bool = True) -> list[Record]:
    """Decode the batch that starts at `position`.

    Raises FormatError: as `parse_header`; CORRUPT_MESSAGE for a CRC that does not match or a body that does not
    decompress; UNSUPPORTED_COMPRESSION_TYPE; MESSAGE_TOO_LARGE for a body that would decompress beyond the limit;
    INVALID_RECORD for records that do not follow their format.
    """
    header = parse_header(buf, position)
    return [Record(*row) for row in decode_rows(buf, position, header, verify_crc=verify_crc)]


def decode_batches(buf: Buffer, *, verify_crc: bool = True, allow_truncated: bool = True) -> Iterator[Record]:
    """Yield the records of consecutive batches, without control batches, which contain no user's records.

    Args:
        allow_truncated: skip a truncated last batch, which a fetch may contain; otherwise it is an error.

    Raises FormatError as `decode_batch`.
    """
    end = 0
    for position, header in iter_headers(buf):
        end = position + header.size_bytes
        if not header.is_control:
            for row in iter_rows(buf, position, header, verify_crc=verify_crc):
                yield Record(*row)
    if end != len(buf) and not allow_truncated:
        raise FormatError(f"{len(buf) - end} bytes are left after the last whole batch")


def batch_body(buf: Buffer, position: int, header: BatchHeader, *, verify_crc: bool) -> memoryview:
    """Return the records' bytes of a batch as stored, compressed or not, after the checks that need no record.

    Raises FormatError: CORRUPT_MESSAGE for a CRC that does not match, INVALID_RECORD for impossible offsets or an
    impossible count.
    """
    if verify_crc:
        check_crc(buf, position, header)
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.next_offset > OFFSET_MAX:
        raise _invalid(f"offsets {header.base_offset} to {header.last_offset} are out of range")
    count = header.record_count
    if count < 0 or count > header.last_offset_delta + 1:
        raise _invalid(f"{count} records do not fit the offset deltas 0 to {header.last_offset_delta}")
    body = memoryview(buf)[position + BATCH_HEADER_BYTES : position + header.size_bytes]
    if count > records_max(len(body), header.attributes & COMPRESSION_MASK):
        raise _invalid(f"{count} records do not fit a body of {len(body)} bytes")
    return body


def batch_payload(
    buf: Buffer, position: int, header: BatchHeader, *, verify_crc: bool, limit: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> bytes | memoryview:
    """Return the records' bytes of a batch, decompressed; uncompressed ones are not copied.

    Args:
        limit: of the decompressed bytes.

    Raises FormatError as `decode_batch`.
    """
    body = batch_body(buf, position, header, verify_crc=verify_crc)
    compression = header.attributes & COMPRESSION_MASK
    payload = body if compression == CompressionType.NONE else decompress(compression, body, limit=limit)
    if header.record_count * RECORD_BYTES_MIN > len(payload):
        raise _invalid(f"{header.record_count} records do not fit {len(payload)} bytes")
    return payload


def decode_rows(buf: Buffer, position: int, header: BatchHeader, *, verify_crc: bool = True) -> list[Row]:
    """Decode a batch to plain tuples, for callers with their own record class. Raises FormatError as `decode_batch`."""
    return decode_payload(bytes(batch_payload(buf, position, header, verify_crc=verify_crc)), header)


def decode_payload(payload: bytes, header: BatchHeader) -> list[Row]:
    """Decode the records of a batch from its decompressed payload. Raises FormatError(INVALID_RECORD)."""
    return decode_part(payload, header, BEGINNING, header.record_count, len(payload) + 1)[0]


def iter_rows(buf: Buffer, position: int, header: BatchHeader, *, verify_crc: bool = True) -> Iterator[Row]:
    """Yield what `decode_rows` returns, of which no more than a part is in memory. Raises FormatError as that does."""
    for rows in iter_parts(bytes(batch_payload(buf, position, header, verify_crc=verify_crc)), header):
        yield from rows


def iter_parts(payload: bytes, header: BatchHeader) -> Iterator[list[Row]]:
    """Yield the records of a payload in parts of PART_BYTES and PART_ROWS. Raises FormatError(INVALID_RECORD)."""
    part_start: Place | None = BEGINNING
    while part_start is not None:
        rows, part_start = decode_part(payload, header, part_start, PART_ROWS, PART_BYTES)
        yield rows


class Place(NamedTuple):
    """A place between two records of a payload.

    Attributes:
        position: of the next record.
        number: of the records before it.
        last_delta: offset delta of the last of them.
    """

    position: int
    number: int
    last_delta: int


BEGINNING = Place(0, 0, -1)


def decode_part(
    payload: bytes, header: BatchHeader, part_start: Place, rows_max: int, bytes_max: int
) -> tuple[list[Row], Place | None]:
    """Decode the next records of a payload, for readers to whom all of them might be too many.

    Args:
        part_start: where to begin; BEGINNING, or what this function has returned for the same payload.
        rows_max: the most records.
        bytes_max: no further record is decoded once those before it have so many bytes.

    Returns:
        The records, and the place behind them; None behind the last record.

    Raises FormatError(INVALID_RECORD).
    """
    log_append_time = header.max_timestamp_ms if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    try:
        return _decode_records(payload, header, log_append_time, part_start, rows_max, bytes_max)
    except IndexError:
        raise _invalid("a record is truncated") from None


def _decode_records(
    data: bytes, header: BatchHeader, log_append_time_ms: int | None, part_start: Place, rows_max: int, bytes_max: int
) -> tuple[list[Row], Place | None]:
    # One flat loop: a call for each varint would double the time. The fast path of each is its one-byte form.
    base_offset, base_timestamp = header.base_offset, header.base_timestamp_ms
    last_offset_delta = header.last_offset_delta
    end = len(data)
    position, number, last_delta = part_start
    stop = position + bytes_max
    left = header.record_count - number
    rows: list[Row] = []
    add = rows.append
    for _ in range(min(left, rows_max)):
        if position >= stop and rows:
            break
        byte = data[position]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            length, position = decode_varint(data, position)
        record_end = position + length
        if length < RECORD_BYTES_MIN - 1 or record_end > end:
            raise _invalid(f"the record length {length} does not fit the batch")
        position += 1  # attributes, unused
        byte = data[position]
        if byte < 0x80:
            timestamp = base_timestamp + ((byte >> 1) ^ -(byte & 1))
            position += 1
        else:
            delta, position = decode_varlong(data, position)
            timestamp = base_timestamp + delta
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise _invalid(f"the timestamp {timestamp} does not fit 64 bits")
        byte = data[position]
        if byte < 0x80:
            delta = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            delta, position = decode_varint(data, position)
        if not last_delta < delta <= last_offset_delta:
            raise _invalid(f"the offset delta {delta} is out of order or range")
        last_delta = delta
        byte = data[position]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            length, position = decode_varint(data, position)
        key: bytes | None = None
        if length >= 0:
            key = data[position : position + length]
            position += length
        elif length != -1:
            raise _invalid(f"invalid key length {length}")
        if position >= record_end:
            raise _invalid("a key extends beyond its record")
        byte = data[position]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            length, position = decode_varint(data, position)
        value: bytes | None = None
        if length >= 0:
            value = data[position : position + length]
            position += length
        elif length != -1:
            raise _invalid(f"invalid value length {length}")
        if position >= record_end:
            raise _invalid("a value extends beyond its record")
        headers: tuple[Header, ...] = ()
        if data[position]:
            headers, position = decode_headers(data, position, record_end)
        else:
            position += 1
        if position != record_end:
            raise _invalid("a record's length contradicts its content")
        add(
            (
                base_offset + delta,
                timestamp if log_append_time_ms is None else log_append_time_ms,
                key,
                value,
                headers,
            )
        )
    if len(rows) < left:
        return rows, Place(position, number + len(rows), last_delta)
    if position != end:
        raise _invalid(f"{end - position} bytes are left after the last of {header.record_count} records")
    return rows, None


def decode_headers(data: bytes, position: int, record_end: int) -> tuple[tuple[Header, ...], int]:
    """Return a record's headers and the position after them. Raises FormatError(INVALID_RECORD)."""
    count, position = decode_varint(data, position)
    if not 0 <= count <= HEADERS_PER_RECORD_MAX:
        raise _invalid(f"invalid header count {count}")
    headers: list[Header] = []
    for _ in range(count):
        length, position = decode_varint(data, position)
        if length < 0 or position + length > record_end:
            raise _invalid(f"the header key length {length} does not fit the record")
        try:
            name = data[position : position + length].decode()
        except UnicodeDecodeError as error:
            raise _invalid(f"a header key is not UTF-8: {error.reason}") from error
        position += length
        length, position = decode_varint(data, position)
        value: bytes | None = None
        if length >= 0:
            if position + length > record_end:
                raise _invalid(f"the header value length {length} does not fit the record")
            value = data[position : position + length]
            position += length
        elif length != -1:
            raise _invalid(f"invalid header value length {length}")
        headers.append((name, value))
    return tuple(headers), position


def _invalid(message: str) -> FormatError:
    return FormatError(message, ErrorCode.INVALID_RECORD)
