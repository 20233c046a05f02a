"""The compiled loops: varints, record parsing, record writing. Imported only where numba is used.

Every kernel works on flat arrays, checks each bound before it reads or writes, and returns a code instead of raising.
So any bytes are safe, and the interpreter's lock is released. `record_decoder` and `record_encoder` do the same in
Python; property tests compare the two. Everything is in one file, since numba's cache only looks at the file of a
kernel: a change in a helper elsewhere could leave old code in use.

The helpers take addresses instead of arrays: a helper with an array counts references at each call, which costs more
than its work (a factor of eight, measured), even when inlined. Addresses come from arrays that the calling kernel
holds.
"""

# mypy: ignore-errors
# numba's language looks like Python, but its types are those of the signatures below.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from odradek.limits import HEADERS_PER_RECORD_MAX

OK = 0
BAD_VARINT = 1
BAD_LENGTH = 2
BAD_TIMESTAMP = 3
BAD_OFFSET = 4
BAD_HEADER = 5
LEFT_OVER = 6

BODY_BYTES_MAX = 2**31 - 1 - 61

MESSAGES = {
    BAD_VARINT: "a variable-length integer is truncated or too long",
    BAD_LENGTH: "a length does not fit its record or its batch",
    BAD_TIMESTAMP: "a timestamp does not fit 64 bits",
    BAD_OFFSET: "an offset delta is out of order or range",
    BAD_HEADER: "a header count is out of range",
    LEFT_OVER: "bytes are left after the last record",
}

# The slots of a parse's running state.
ROWS = 0
KEY_BYTES = 1
VALUE_BYTES = 2
KEY_NULLS = 3
VALUE_NULLS = 4
HEADERS = 5
HEADER_KEY_BYTES = 6
HEADER_VALUE_BYTES = 7
HEADER_NULLS = 8
STATE_SLOTS = 9


def _compile(*signatures: Any) -> Any:
    """Compile for exactly these signatures, at import: a read-only buffer and a writable one share the code."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(list(signatures), nogil=True, cache=True)(function)
        except RuntimeError:  # no folder that numba can write to
            return numba.njit(list(signatures), nogil=True)(function)

    return decorate


_inline = numba.njit(forceinline=True, nogil=True)


_INT64, _UINT64, _VOID = numba.types.int64, numba.types.uint64, numba.types.void
_BOOL = numba.types.boolean
_POINTER = ir.IntType(8).as_pointer()
# Arrays that are written (w) and arrays that are only read (r).
_U8W = numba.types.Array(numba.types.uint8, 1, "C")
_U8R = numba.types.Array(numba.types.uint8, 1, "C", readonly=True)
_I32W = numba.types.Array(numba.types.int32, 1, "C")
_I64W = numba.types.Array(_INT64, 1, "C")
_I64R = numba.types.Array(_INT64, 1, "C", readonly=True)


@intrinsic
def _byte_at(typingctx, address):
    """The byte at an address, as uint64."""

    def generate(context, builder, signature, arguments):
        return builder.zext(builder.load(builder.inttoptr(arguments[0], _POINTER)), ir.IntType(64))

    return _UINT64(_INT64), generate


@intrinsic
def _word_at(typingctx, address):
    """The four bytes at an address, little-endian, as uint64."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(32).as_pointer())
        return builder.zext(builder.load(pointer, align=1), ir.IntType(64))

    return _UINT64(_INT64), generate


@intrinsic
def _set_byte(typingctx, address, value):
    """Write the lowest byte of a uint64 to an address."""

    def generate(context, builder, signature, arguments):
        byte = builder.trunc(arguments[1], ir.IntType(8))
        builder.store(byte, builder.inttoptr(arguments[0], _POINTER))
        return context.get_dummy_value()

    return _VOID(_INT64, _UINT64), generate


@intrinsic
def _copy(typingctx, target, source, length):
    """Copy bytes from address to address."""

    def generate(context, builder, signature, arguments):
        to, start = (builder.inttoptr(address, _POINTER) for address in arguments[:2])
        cgutils.raw_memcpy(builder, to, start, arguments[2], 1)
        return context.get_dummy_value()

    return _VOID(_INT64, _INT64, _INT64), generate


@_inline
def _address(array):
    return np.int64(array.ctypes.data)


# --- reading ------------------------------------------------------------------------------------------------------


@_inline
def _varint(address, position, end, bits):
    """Return (value, position after it); the position is -1 if the bytes end, are too many, or have too many bits."""
    zigzag = np.uint64(0)
    shift = np.uint64(0)
    while position < end and shift <= bits:
        byte = _byte_at(address + position)
        position += 1
        low = byte & np.uint64(0x7F)
        if shift + np.uint64(7) > bits and (low >> (bits - shift)) != np.uint64(0):
            break
        zigzag |= low << shift
        if byte < np.uint64(0x80):
            return np.int64(zigzag >> np.uint64(1)) ^ -np.int64(zigzag & np.uint64(1)), np.int64(position)
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@_compile(numba.types.UniTuple(_INT64, 2)(_INT64, _INT64, _INT64, _INT64, _I64W))
def _parse_headers(source, count, position, record_end, state):
    """Check a record's headers and add their sizes to the state; return the code and the position after them."""
    b32 = np.uint64(32)
    if count < 0 or count > HEADERS_PER_RECORD_MAX:
        return BAD_HEADER, position
    for _ in range(count):
        length, position = _varint(source, position, record_end, b32)
        if position < 0:
            return BAD_VARINT, position
        if length < 0 or length > record_end - position:
            return BAD_LENGTH, position
        position += length
        state[HEADER_KEY_BYTES] += length
        length, position = _varint(source, position, record_end, b32)
        if position < 0:
            return BAD_VARINT, position
        if length < -1 or length > record_end - position:
            return BAD_LENGTH, position
        if length < 0:
            state[HEADER_NULLS] += 1
        else:
            position += length
            state[HEADER_VALUE_BYTES] += length
    state[HEADERS] += count
    return OK, position


@_compile(
    _INT64(
        *(_U8R, _INT64, _INT64, _INT64, _INT64, _BOOL, _INT64),
        *(_INT64, _INT64, _INT64, _INT64),  # the range
        *(_BOOL, _BOOL, _BOOL, _I64W, _I64W),
        *(_I32W, _U8W, _U8W),  # keys
        *(_I32W, _U8W, _U8W),  # values
        *(_I64W, _I64W),
    )
)
def parse_records(
    data,  # uint8: the records of one batch, decompressed
    count,
    base_offset,
    base_timestamp,
    last_offset_delta,
    has_fixed_timestamp,  # LogAppendTime: all records carry `fixed_timestamp`
    fixed_timestamp,
    start_offset,  # records outside [start, end) or [min, max] are left out
    end_offset,
    min_timestamp,
    max_timestamp,
    wants_key,
    wants_value,
    wants_headers,
    offsets,  # int64, one a row
    timestamps,  # int64, ms
    key_ends,  # int32, one more than rows: Arrow's offsets
    key_bits,  # uint8: Arrow's validity bitmap, zeroed
    key_data,  # uint8, with room for all payloads
    value_ends,
    value_bits,
    value_data,
    header_starts,  # int64: where a row's headers begin in `data`
    state,  # int64: where the last batch stopped
):
    """Append the records of a batch to the columns; return OK or the code of an error in the bytes."""
    b32, b64 = np.uint64(32), np.uint64(64)
    source, end = _address(data), np.int64(data.size)
    key_address, value_address = _address(key_data), _address(value_data)
    wants_body = wants_key or wants_value or wants_headers
    row, key_at, value_at = state[ROWS], state[KEY_BYTES], state[VALUE_BYTES]
    key_nulls, value_nulls = state[KEY_NULLS], state[VALUE_NULLS]
    position = np.int64(0)
    last_delta = np.int64(-1)
    for _ in range(count):
        length, position = _varint(source, position, end, b32)
        if position < 0:
            return BAD_VARINT
        record_end = position + length
        if length < 6 or record_end > end:
            return BAD_LENGTH
        position += 1  # attributes, unused
        delta, position = _varint(source, position, record_end, b64)
        if position < 0:
            return BAD_VARINT
        timestamp = base_timestamp + delta
        if (delta >= 0 and timestamp < base_timestamp) or (delta < 0 and timestamp > base_timestamp):
            return BAD_TIMESTAMP
        delta, position = _varint(source, position, record_end, b32)
        if position < 0:
            return BAD_VARINT
        if delta <= last_delta or delta > last_offset_delta:
            return BAD_OFFSET
        last_delta = delta
        offset = base_offset + delta
        if has_fixed_timestamp:
            timestamp = fixed_timestamp
        if offset < start_offset or offset >= end_offset or timestamp < min_timestamp or timestamp > max_timestamp:
            position = record_end
            continue
        offsets[row] = offset
        timestamps[row] = timestamp
        if wants_body:
            length, position = _varint(source, position, record_end, b32)
            if position < 0:
                return BAD_VARINT
            if length < -1 or length > record_end - position:
                return BAD_LENGTH
            if wants_key:
                if length >= 0:
                    key_bits[row >> 3] |= np.uint8(1 << (row & 7))
                    _copy(key_address + key_at, source + position, length)
                    key_at += length
                else:
                    key_nulls += 1
                key_ends[row + 1] = key_at
            if length > 0:
                position += length
            length, position = _varint(source, position, record_end, b32)
            if position < 0:
                return BAD_VARINT
            if length < -1 or length > record_end - position:
                return BAD_LENGTH
            if wants_value:
                if length >= 0:
                    value_bits[row >> 3] |= np.uint8(1 << (row & 7))
                    _copy(value_address + value_at, source + position, length)
                    value_at += length
                else:
                    value_nulls += 1
                value_ends[row + 1] = value_at
            if length > 0:
                position += length
            if wants_headers:
                header_starts[row] = position
            length, position = _varint(source, position, record_end, b32)
            if position < 0:
                return BAD_VARINT
            if length != 0:
                code, position = _parse_headers(source, length, position, record_end, state)
                if code != OK:
                    return code
            if position != record_end:
                return LEFT_OVER
        else:
            position = record_end
        row += 1
    if position != end:
        return LEFT_OVER
    state[ROWS], state[KEY_BYTES], state[VALUE_BYTES] = row, key_at, value_at
    state[KEY_NULLS], state[VALUE_NULLS] = key_nulls, value_nulls
    return OK


@_compile(_INT64(_U8R, _INT64, _INT64, _INT64, _INT64, *(_I64W,) * 7, _I64W))
def place_records(
    data,  # uint8: the records of one batch, decompressed
    count,
    base_offset,
    base_timestamp,
    last_offset_delta,
    offsets,  # int64, one a record
    timestamps,  # int64, ms
    key_starts,  # int64: places in `data`
    key_ends,  # before the start: null
    value_starts,
    value_ends,
    header_starts,  # -1: a record without headers
    state,  # int64, zeroed: how many keys and values are null, and what the headers hold
):
    """Find the fields of a batch's records without copying; return OK or the code of an error in the bytes.

    The walk is that of `parse_records`, which copies as it goes and leaves records out: one loop for both would pay for
    what the other wants at every record.
    """
    b32, b64 = np.uint64(32), np.uint64(64)
    source, end = _address(data), np.int64(data.size)
    position = np.int64(0)
    last_delta = np.int64(-1)
    for row in range(count):
        length, position = _varint(source, position, end, b32)
        if position < 0:
            return BAD_VARINT
        record_end = position + length
        if length < 6 or record_end > end:
            return BAD_LENGTH
        position += 1  # attributes, unused
        delta, position = _varint(source, position, record_end, b64)
        if position < 0:
            return BAD_VARINT
        timestamp = base_timestamp + delta
        if (delta >= 0 and timestamp < base_timestamp) or (delta < 0 and timestamp > base_timestamp):
            return BAD_TIMESTAMP
        delta, position = _varint(source, position, record_end, b32)
        if position < 0:
            return BAD_VARINT
        if delta <= last_delta or delta > last_offset_delta:
            return BAD_OFFSET
        last_delta = delta
        offsets[row] = base_offset + delta
        timestamps[row] = timestamp
        length, position = _varint(source, position, record_end, b32)
        if position < 0:
            return BAD_VARINT
        if length < -1 or length > record_end - position:
            return BAD_LENGTH
        key_starts[row] = position
        key_ends[row] = position + length
        if length > 0:
            position += length
        elif length < 0:
            state[KEY_NULLS] += 1
        length, position = _varint(source, position, record_end, b32)
        if position < 0:
            return BAD_VARINT
        if length < -1 or length > record_end - position:
            return BAD_LENGTH
        value_starts[row] = position
        value_ends[row] = position + length
        if length > 0:
            position += length
        elif length < 0:
            state[VALUE_NULLS] += 1
        header_starts[row] = position
        length, position = _varint(source, position, record_end, b32)
        if position < 0:
            return BAD_VARINT
        if length == 0:
            header_starts[row] = -1
        else:
            code, position = _parse_headers(source, length, position, record_end, state)
            if code != OK:
                return code
        if position != record_end:
            return LEFT_OVER
    if position != end:
        return LEFT_OVER
    return OK


@_compile(_INT64(_U8R, _I64W, _INT64, _INT64, _I32W, _I32W, _U8W, _I32W, _U8W, _U8W, _I64W))
def fill_headers(
    data,  # the same bytes that `parse_records` saw
    header_starts,
    first_row,
    end_row,
    list_ends,  # int32, one more than rows
    key_ends,  # int32, one more than headers
    key_data,
    value_ends,
    value_bits,
    value_data,
    state,
):
    """Write the headers of rows whose bytes are checked; the state has the sizes at which the last batch ended."""
    b32 = np.uint64(32)
    source, end = _address(data), np.int64(data.size)
    key_address, value_address = _address(key_data), _address(value_data)
    number, key_at, value_at = state[HEADERS], state[HEADER_KEY_BYTES], state[HEADER_VALUE_BYTES]
    for row in range(first_row, end_row):
        count, position = _varint(source, header_starts[row], end, b32)
        # The sizes were counted from these bytes; only a buffer that another thread changes can break that.
        if position < 0 or number + count > value_ends.size - 1:
            return BAD_HEADER
        for _ in range(count):
            length, position = _varint(source, position, end, b32)
            if position < 0 or length < 0 or length > end - position or key_at + length > key_data.size:
                return BAD_LENGTH
            _copy(key_address + key_at, source + position, length)
            position += length
            key_at += length
            length, position = _varint(source, position, end, b32)
            if position < 0 or length > end - position or value_at + length > value_data.size:
                return BAD_LENGTH
            if length >= 0:
                value_bits[number >> 3] |= np.uint8(1 << (number & 7))
                _copy(value_address + value_at, source + position, length)
                position += length
                value_at += length
            number += 1
            key_ends[number] = key_at
            value_ends[number] = value_at
        list_ends[row + 1] = number
    state[HEADERS], state[HEADER_KEY_BYTES], state[HEADER_VALUE_BYTES] = number, key_at, value_at
    return OK


# --- writing ------------------------------------------------------------------------------------------------------


@_inline
def _varint_size(value):
    zigzag = np.uint64(value << 1) ^ np.uint64(value >> 63)
    size = np.int64(1)
    while zigzag >= np.uint64(0x80):
        zigzag >>= np.uint64(7)
        size += 1
    return size


@_inline
def _put_varint(address, value):
    """Write at an address; return the one after it."""
    zigzag = np.uint64(value << 1) ^ np.uint64(value >> 63)
    while zigzag >= np.uint64(0x80):
        _set_byte(address, zigzag | np.uint64(0x80))
        zigzag >>= np.uint64(7)
        address += 1
    _set_byte(address, zigzag)
    return address + 1


@_inline
def _put_bytes(address, source, length):
    """Write a length (-1 null) and that many bytes; return the address after them."""
    address = _put_varint(address, length)
    if length > 0:
        _copy(address, source, length)
        address += length
    return address


@_compile(
    numba.types.UniTuple(_INT64, 4)(
        *(_INT64, _INT64, _I64R),
        *(_I64R, _U8R, _U8R),  # keys
        *(_I64R, _U8R, _U8R),  # values
        *(_I64R, _U8R, _I64R, _U8R, _I64R, _U8R, _U8R),  # headers
        *(_I64R, _INT64, _U8W),
    )
)
def write_records(
    first_row,
    end_row,
    timestamps,  # int64, ms, one a row
    key_ends,  # int64, one more than rows, or empty where there is no such column
    key_valid,  # uint8, one a row, or empty where nothing is null
    key_data,  # uint8
    value_ends,
    value_valid,
    value_data,
    list_ends,  # of the headers, int64, one more than rows, or empty
    list_valid,
    header_key_ends,
    header_key_data,
    header_value_ends,
    header_value_valid,
    header_value_data,
    order,  # int64: which row is written at a place; empty where rows are written as they stand
    body_bytes_max,  # no further record where it would make the body larger
    out,  # uint8
):
    """Write records from place `first_row` up to `end_row` until the body is full.

    Returns (code, rows written, bytes, largest timestamp). If the first record alone does not fit `out`: no rows, and
    the bytes that it needs.
    """
    start = _address(out)
    key_address, value_address = _address(key_data), _address(value_data)
    header_key_address, header_value_address = _address(header_key_data), _address(header_value_data)
    has_key, has_key_nulls = key_ends.size > 0, key_valid.size > 0
    has_value, has_value_nulls = value_ends.size > 0, value_valid.size > 0
    has_headers, has_list_nulls = list_ends.size > 0, list_valid.size > 0
    has_header_nulls = header_value_valid.size > 0
    has_order = order.size > 0
    base_timestamp = timestamps[order[first_row] if has_order else first_row]
    largest = base_timestamp
    written = np.int64(0)
    position = first_row
    while position < end_row:
        row = order[position] if has_order else position
        timestamp = timestamps[row]
        delta = timestamp - base_timestamp
        if (timestamp >= base_timestamp) != (delta >= 0):
            return BAD_TIMESTAMP, position - first_row, written, largest
        key_length = np.int64(-1)
        if has_key and (not has_key_nulls or key_valid[row] != 0):
            key_length = key_ends[row + 1] - key_ends[row]
        value_length = np.int64(-1)
        if has_value and (not has_value_nulls or value_valid[row] != 0):
            value_length = value_ends[row + 1] - value_ends[row]
        first_header = end_header = np.int64(0)
        if has_headers and (not has_list_nulls or list_valid[row] != 0):
            first_header, end_header = list_ends[row], list_ends[row + 1]
        if end_header - first_header > HEADERS_PER_RECORD_MAX:
            return BAD_HEADER, position - first_row, written, largest
        size = (
            1
            + _varint_size(delta)
            + _varint_size(position - first_row)
            + _varint_size(key_length)
            + max(key_length, 0)
            + _varint_size(value_length)
            + max(value_length, 0)
            + _varint_size(end_header - first_header)
        )
        for number in range(first_header, end_header):
            length = header_key_ends[number + 1] - header_key_ends[number]
            size += _varint_size(length) + length
            length = header_value_ends[number + 1] - header_value_ends[number]
            if has_header_nulls and header_value_valid[number] == 0:
                length = np.int64(-1)
            size += _varint_size(length) + max(length, 0)
        total = size + _varint_size(size)
        if total > BODY_BYTES_MAX:
            return BAD_LENGTH, position - first_row, written, largest
        if written + total > body_bytes_max and position > first_row:
            break
        if written + total > out.size:
            return OK, np.int64(0), total, largest
        at = _put_varint(start + written, size)
        _set_byte(at, np.uint64(0))  # attributes
        at = _put_varint(at + 1, delta)
        at = _put_varint(at, position - first_row)
        at = _put_bytes(at, key_address + (key_ends[row] if key_length > 0 else 0), key_length)
        at = _put_bytes(at, value_address + (value_ends[row] if value_length > 0 else 0), value_length)
        at = _put_varint(at, end_header - first_header)
        for number in range(first_header, end_header):
            length = header_key_ends[number + 1] - header_key_ends[number]
            at = _put_bytes(at, header_key_address + header_key_ends[number], length)
            length = header_value_ends[number + 1] - header_value_ends[number]
            if has_header_nulls and header_value_valid[number] == 0:
                length = np.int64(-1)
            at = _put_bytes(at, header_value_address + header_value_ends[number], length)
        written += total
        largest = max(largest, timestamp)
        position += 1
    return OK, position - first_row, written, largest


# --- partitions ---------------------------------------------------------------------------------------------------


@_inline
def _murmur2(address, length):
    """MurmurHash2 with the Java client's seed: an unsigned 32-bit number, in 64-bit arithmetic."""
    mask, multiplier = np.uint64(0xFFFFFFFF), np.uint64(0x5BD1E995)
    h = np.uint64(0x9747B28C) ^ np.uint64(length)
    end = address + (length & ~np.int64(3))
    while address < end:
        k = _word_at(address) * multiplier & mask
        k ^= k >> np.uint64(24)
        h = (h * multiplier & mask) ^ (k * multiplier & mask)
        address += 4
    tail_bytes = length & np.int64(3)
    if tail_bytes > 0:
        for at in range(tail_bytes):
            h ^= _byte_at(address + at) << np.uint64(8 * at)
        h = h * multiplier & mask
    h ^= h >> np.uint64(13)
    h = h * multiplier & mask
    return h ^ (h >> np.uint64(15))


@_compile(_INT64(_INT64, _INT64, _INT64, _INT64, _I64R, _U8R, _U8R, _I32W))
def choose_partitions(
    row_count,
    partition_count,
    sticky,  # where rows without a key go first
    sticky_rows,  # so many of them, then to the next partition
    key_ends,  # as in `write_records`
    key_valid,
    key_data,
    partitions,  # int32, one a row
):
    """Choose the partition of each row: by its key, or in runs without one. Return the number of rows without a key."""
    has_key, has_nulls = key_ends.size > 0, key_valid.size > 0
    address = _address(key_data)
    without = np.int64(0)
    for row in range(row_count):
        if has_key and (not has_nulls or key_valid[row] != 0):
            number = _murmur2(address + key_ends[row], key_ends[row + 1] - key_ends[row])
            partitions[row] = np.int32(np.int64(number & np.uint64(0x7FFFFFFF)) % partition_count)
        else:
            partitions[row] = np.int32((sticky + without // sticky_rows) % partition_count)
            without += 1
    return without


@_compile(_VOID(_I32W, _I64W, _I64W))
def group_rows(
    partitions,  # int32, one a row, below the number of partitions
    starts,  # int64, one more than partitions, zeroed: where a partition's rows begin in `order`
    order,  # int64, one a row
):
    """Rows by partition, those of one partition as they stand: a counting sort."""
    for row in range(partitions.size):
        starts[partitions[row] + 1] += 1
    for number in range(1, starts.size):
        starts[number] += starts[number - 1]
    at = starts.copy()
    for row in range(partitions.size):
        number = partitions[row]
        order[at[number]] = row
        at[number] += 1
