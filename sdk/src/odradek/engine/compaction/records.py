"""The positions of the records in a batch's payload, without creating objects for them.

    length | attributes | timestamp delta | offset delta | key length | key | value length | value | headers
    ^ start                                ^ rest                                                            ^ end

Compaction reads the key, the offset, the timestamp and whether there is a value; everything else is copied unread.
Lengths are checked against the record and the batch before they are used; headers are not checked.
"""

from __future__ import annotations

from odradek.errors import ErrorCode, FormatError
from odradek.format.varint import decode_varint, decode_varlong
from odradek.model.record import BatchHeader

RawRecord = tuple[int, int, int, int, int, bytes | None, bool]
"""start, end, rest: positions in the payload; offset; timestamp in ms as under CreateTime; key; has a value."""

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


def walk_records(payload: bytes, header: BatchHeader) -> list[RawRecord]:
    """Return the records of a decompressed payload, in order.

    Raises FormatError(INVALID_RECORD) if they do not follow the format.
    """
    try:
        return _walk(payload, header)
    except IndexError:
        raise _invalid("a record is truncated") from None


def _walk(data: bytes, header: BatchHeader) -> list[RawRecord]:
    # One flat loop, as in record_decoder: a call for each varint would triple the time. Most are one or two bytes long.
    base_offset, base_timestamp = header.base_offset, header.base_timestamp_ms
    last_offset_delta = header.last_offset_delta
    end = len(data)
    position = 0
    last_delta = -1
    records: list[RawRecord] = []
    add = records.append
    for _ in range(header.record_count):
        start = position
        byte = data[position]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            position += 1
        elif (high := data[position + 1]) < 0x80:
            length = ((byte & 0x7F | high << 7) >> 1) ^ -(byte & 1)
            position += 2
        else:
            length, position = decode_varint(data, position)
        record_end = position + length
        if length < 1 or record_end > end:
            raise _invalid("a record's length does not fit its batch")
        position += 1  # attributes, unused
        byte = data[position]
        if byte < 0x80:
            timestamp = base_timestamp + ((byte >> 1) ^ -(byte & 1))
            position += 1
        elif (high := data[position + 1]) < 0x80:
            timestamp = base_timestamp + (((byte & 0x7F | high << 7) >> 1) ^ -(byte & 1))
            position += 2
        else:
            delta, position = decode_varlong(data, position)
            timestamp = base_timestamp + delta
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise _invalid("a timestamp does not fit 64 bits")
        rest = position
        byte = data[position]
        if byte < 0x80:
            delta = (byte >> 1) ^ -(byte & 1)
            position += 1
        elif (high := data[position + 1]) < 0x80:
            delta = ((byte & 0x7F | high << 7) >> 1) ^ -(byte & 1)
            position += 2
        else:
            delta, position = decode_varint(data, position)
        if not last_delta < delta <= last_offset_delta:
            raise _invalid("an offset delta is out of order or range")
        last_delta = delta
        byte = data[position]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            position += 1
        elif (high := data[position + 1]) < 0x80:
            length = ((byte & 0x7F | high << 7) >> 1) ^ -(byte & 1)
            position += 2
        else:
            length, position = decode_varint(data, position)
        key: bytes | None = None
        if length >= 0:
            key = data[position : position + length]
            position += length
        elif length != -1:
            raise _invalid("a key length is out of range")
        if position >= record_end:
            raise _invalid("a key extends beyond its record")
        byte = data[position]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            position += 1
        elif (high := data[position + 1]) < 0x80:
            length = ((byte & 0x7F | high << 7) >> 1) ^ -(byte & 1)
            position += 2
        else:
            length, position = decode_varint(data, position)
        # After the value there is at least the count of headers.
        if length < -1 or position + max(length, 0) >= record_end:
            raise _invalid("a value does not fit its record")
        add((start, record_end, rest, base_offset + delta, timestamp, key, length >= 0))
        position = record_end
    if position != end:
        raise _invalid("bytes are left after the last record")
    return records


def _invalid(message: str) -> FormatError:
    return FormatError(message, ErrorCode.INVALID_RECORD)
