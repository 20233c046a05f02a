"""Runs of records that are surely well-formed, found without decoding each: most of what producers send.

    length | attributes | timestamp delta | offset delta | key length | key | value length | value | header count
    varint   1 byte       varlong           varint         varint             varint                 varint

Where the widths of the fields are known, one field of many records is a *column*, which is compared as a whole: offset
deltas with the bytes that they must have, other varints by their top bits. The length of a record and that of its key
leave one length for the value, so those bytes are known, too. Records of equal size need no walk at all: each of their
columns is one slice with a stride.

A run is never longer than the truth: what passes here passes the walk that decodes each record (batches.py).
That gets the rest, malformed or merely unusual: records with headers or with keys of 64 bytes and more, tombstones
among values, deltas of mixed widths. A run ends where the width of its offset deltas does, and at multiples of 8,192.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress, repeat
from operator import add, sub
from typing import Final, NamedTuple

from odradek.format.varint import SMALL, encode_varlong

RUN_MIN: Final = 8  # records from which looking for a run pays
RUN_MAX: Final = 1024  # records that are looked at together
_HEAD_BYTES: Final = 12  # from the attributes to the key length, at most
_LENGTH_WIDTH_MAX: Final = 3
_TIMESTAMP_WIDTH_MAX: Final = 4
_BLOCK: Final = 8192  # offset deltas of two bytes, or with the same third one
_OFFSET_DELTAS_MAX: Final = _BLOCK * 128  # of three bytes

_LAST: Final = bytes(range(0x80))  # the last byte of a varint
_NOT_LAST: Final = bytes(range(0x80, 0x100))
_EVEN_LAST: Final = _LAST[::2]  # of numbers that are not negative
_EVEN_NOT_LAST: Final = _NOT_LAST[::2]
_SINGLE_DELTAS: Final = _EVEN_LAST  # the offset deltas 0 to 63
_FIRST_OF_DELTAS: Final = _EVEN_NOT_LAST * (_BLOCK // 64)
_SECOND_OF_TWO: Final = b"".join(bytes((byte,)) * 64 for byte in range(_BLOCK // 64))
_SECOND_OF_THREE: Final = b"".join(bytes((byte | 0x80,)) * 64 for byte in range(_BLOCK // 64))
_NULL: Final = 0x01  # the length -1
_KEY_LENGTHS: Final = _EVEN_LAST  # 0 to 63
_KEY_LENGTHS_OR_NULL: Final = _KEY_LENGTHS + bytes((_NULL,))
_KEY_BYTES: Final = bytes((byte & 0x7F) >> 1 for byte in range(0x100))  # by the length's byte; null has none

# The bytes of the value length, by the bytes from there to the end of the record: the length itself, the value, and one
# byte for no headers. Two bytes are left by an empty value and by null, one more than 65 by none.
_VALUE_LENGTHS: Final[tuple[bytes | tuple[bytes, ...], ...]] = (
    (),
    (),
    (b"\x00", bytes((_NULL,))),
    *SMALL[1:64],
    (),
    *SMALL[64:],
)
_SHORT: Final = len(_VALUE_LENGTHS)

_IS_EVEN: Final = bytes((1, 0)) * 128

_Column = Callable[[int], bytes]
"""Gives one byte of each record, at that distance from its attributes."""


class Wanted(NamedTuple):
    """The topic's requirements on each record."""

    earliest_delta_ms: int  # of its timestamp, from the base timestamp
    latest_delta_ms: int  # inclusive, as the earliest
    needs_key: bool


class Passed(NamedTuple):
    """Records that are well-formed."""

    records: int  # perhaps none
    position: int  # after them
    largest_delta_ms: int = 0  # of their timestamps, from the base timestamp


def pass_run(data: bytes, position: int, index: int, count: int, wanted: Wanted, ahead: int) -> Passed:
    """Pass records that are surely well-formed.

    Args:
        data: the uncompressed records of a batch.
        position: where the record of that index begins.
        count: of the batch's records.
        ahead: how many records of unequal size to look at: in vain, if one of them is unusual.
    """
    stop = 64 if index < 64 else (index // _BLOCK + 1) * _BLOCK
    most = min(count, stop, index + RUN_MAX) - index
    width, length = _length_at(data, position)
    size = width + length
    passed = _pass_equal(data, position, index, min(most, (len(data) - position) // size), size, width, wanted)
    if passed.records >= min(RUN_MIN, most):
        return passed
    return _pass_unequal(data, position, index, min(most, ahead), width, wanted)


def _length_at(data: bytes, position: int) -> tuple[int, int]:
    """The width of the length field there, and the length; more than there is, if it is unusual."""
    zigzag = 0
    for width, byte in enumerate(data[position : position + _LENGTH_WIDTH_MAX], 1):
        zigzag |= (byte & 0x7F) << 7 * (width - 1)
        if byte < 0x80:
            return width, len(data) if zigzag & 1 else zigzag >> 1
    return _LENGTH_WIDTH_MAX, len(data)


def _leading(column: bytes, members: bytes) -> int:
    """How many bytes at the front of a column are among the members."""
    return len(column) - len(column.lstrip(members))


def _pass_deltas(column: _Column, index: int, count: int, wanted: Wanted) -> tuple[int, int, list[bytes]]:
    """How many records have good timestamps and offset deltas, the distance of what follows these, and the columns of
    the timestamps.
    """
    at = 1
    fields: list[bytes] = []
    while True:
        field = column(at)
        fields.append(field)
        is_last = field[0] < 0x80
        count = min(count, _leading(field, _LAST if is_last else _NOT_LAST))
        if is_last:
            break
        if at == _TIMESTAMP_WIDTH_MAX:
            return 0, 0, fields
        at += 1
    beyond_ms = 1 << 7 * at - 1  # of all deltas of that width
    if wanted.earliest_delta_ms > -beyond_ms or wanted.latest_delta_ms < beyond_ms - 1:
        return 0, 0, fields
    for expected in _offset_deltas(index, count):
        at += 1
        if column(at)[:count] != expected:
            return 0, 0, fields
    return count, at + 1, fields


def _largest(fields: Sequence[bytes], count: int) -> int:
    """The largest of the first deltas in these columns: a column decides among those that the later ones left."""
    columns = [field[:count] for field in fields]
    is_positive = columns[0].translate(_IS_EVEN)  # zigzag: negative numbers are odd, and the largest is the smallest
    pick = max if 1 in is_positive else min
    if pick is max and 0 in is_positive:
        columns = [bytes(compress(column, is_positive)) for column in columns]
    zigzag = 0
    for at in reversed(range(len(columns))):
        best = pick(columns[at])
        zigzag = zigzag << 7 | best & 0x7F
        if at and columns[at].count(best) < len(columns[at]):
            is_best = [byte == best for byte in columns[at]]
            columns[:at] = [bytes(compress(column, is_best)) for column in columns[:at]]
    return (zigzag >> 1) ^ -(zigzag & 1)


def _offset_deltas(index: int, count: int) -> tuple[bytes, ...]:
    """The columns of the offset deltas from that index on, all of one width."""
    if index < 64:
        return (_SINGLE_DELTAS[index : index + count],)
    start = index % _BLOCK
    first = _FIRST_OF_DELTAS[start : start + count]
    if index < _BLOCK:
        return first, _SECOND_OF_TWO[start : start + count]
    if index < _OFFSET_DELTAS_MAX:
        return first, _SECOND_OF_THREE[start : start + count], bytes((index // _BLOCK,)) * count
    return (b"",)  # which no column is


def _pass_equal(data: bytes, position: int, index: int, count: int, size: int, width: int, wanted: Wanted) -> Passed:
    """Pass records within the data that all have that size, with keys of one length."""
    nothing = Passed(0, position)
    if count < RUN_MIN or size - width < _HEAD_BYTES:
        return nothing
    span = (count - 1) * size + 1

    def column(at: int) -> bytes:
        start = position + width + at
        return data[start : start + span : size]

    for at in range(-width, 0):
        lengths = column(at)
        count = min(count, _leading(lengths, lengths[:1]))
    count, at, timestamps = _pass_deltas(column, index, count, wanted)
    if not count:
        return nothing
    keys = column(at)
    if keys[0] not in _KEY_LENGTHS and (keys[0] != _NULL or wanted.needs_key):
        return nothing
    count = min(count, _leading(keys, keys[:1]))
    at += 1 + _KEY_BYTES[keys[0]]
    expected = _value_length(size - width - at)
    if isinstance(expected, tuple):  # all empty or all null, if any
        expected = column(at)[:1] if column(at)[:1] in expected else b""
    if not expected:
        return nothing
    for byte in expected:
        count = min(count, _leading(column(at), bytes((byte,))))
        at += 1
    count = min(count, _leading(column(size - width - 1), b"\x00"))
    return Passed(count, position + count * size, _largest(timestamps, count)) if count else nothing


def _value_length(left: int) -> bytes | tuple[bytes, ...]:
    """The bytes, or the possible ones, of the value length where so many are left of the record."""
    if left < _SHORT:
        return _VALUE_LENGTHS[max(left, 0)]
    for width in range(2, _LENGTH_WIDTH_MAX + 1):
        encoded = encode_varlong(left - width - 1)
        if len(encoded) == width:
            return encoded
    return ()


def _pass_unequal(data: bytes, position: int, index: int, most: int, width: int, wanted: Wanted) -> Passed:
    """Pass records of any size, whose length fields have that width; see `pass_run`."""
    nothing = Passed(0, position)
    if width > 2:
        return nothing  # so few in a batch that it does not matter
    ends = _ends(data, position, most, width)
    if not ends:
        return nothing
    # Each record's last byte and the next one's head. What ends past the data has no last byte, so it is not counted.
    stride = 1 + width + _HEAD_BYTES
    heads = b"".join([data[position - 1 : position] or b"\x00", data[position : position + stride - 1]])
    heads += b"".join([data[end - 1 : end - 1 + stride] for end in ends])

    def column(at: int) -> bytes:
        return heads[1 + width + at :: stride]

    count = min(len(ends), _leading(column(-width), _EVEN_LAST if width == 1 else _EVEN_NOT_LAST))
    if width == 2:
        count = min(count, _leading(column(-1), _LAST))
    count, at, timestamps = _pass_deltas(column, index, count, wanted)
    keys = column(at)[:count]
    keys = keys[: _leading(keys, _KEY_LENGTHS if wanted.needs_key else _KEY_LENGTHS_OR_NULL)]
    count = min(len(keys), _leading(heads[stride::stride], b"\x00"))
    if not count:
        return nothing
    values: Iterable[int] = map(add, (position, *ends), repeat(width + at + 1, count))
    if keys[:1] * len(keys) != keys or _KEY_BYTES[keys[0]]:
        values = map(add, values, keys.translate(_KEY_BYTES))
    values = list(values)
    left = list(map(sub, ends, values))
    if min(left) < 0 or not all(
        map(data.startswith, [_VALUE_LENGTHS[size] if size < _SHORT else _value_length(size) for size in left], values)
    ):
        return nothing
    return Passed(count, ends[count - 1], _largest(timestamps, count))


def _ends(data: bytes, position: int, most: int, width: int) -> list[int]:
    """Return the ends of the records from `position` on; wrong after a length that is negative or of another width."""
    ends: list[int] = []
    stop = len(data) - width - _HEAD_BYTES
    for _ in repeat(None, most):
        if position >= stop:
            break
        if width == 1:
            position += 1 + (data[position] >> 1)
        else:
            position += 2 + ((data[position] & 0x7F) >> 1) + (data[position + 1] << 6)
        ends.append(position)
    return ends
