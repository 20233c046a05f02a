"""Keys of the rows table. Pure.

    pk    <generation>#<shard>        shard = positive_hash(key) % shards, of the key without its window
    sk    <key> 0x01 <window> <partition>

    key         bytes 0x03 to 0xff are the code points of that number, 0x00 to 0x02 are 0x02 0x02, 0x02 0x03, 0x02 0x04
    window      nothing, or start and end in ms + 2**63, 16 hex digits each
    partition   a slash and a hexadecimal number

The order of `sk` is that of keys' bytes, then of windows: 0x01 is below whatever continues a longer key. Numbers have
their sign bit flipped, so that negative ones come first. The window is in the row's key, so all windows of a key are
one range. The partition is, too: a record that another partition has under the same key is another row, and a reader
takes the newer one (reads.py). So no row has two writers, however a topic is partitioned, and whatever becomes of it.

A key that is written through a windowed serializer of Kafka Streams ends with its window:

    <key> <start ms, 8 bytes>                          TimeWindowedSerializer
    <key> <end ms, 8 bytes> <start ms, 8 bytes>        SessionWindowedSerializer
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from odradek.format.key_hash import positive_hash
from odradek.model.table import Format, ServedTable, WindowType
from odradek.ports.table import Key

_END = "\x01"
_ESCAPED = {0: "\x02\x02", 1: "\x02\x03", 2: "\x02\x04"}
_UNESCAPED = {"\x02": 0, "\x03": 1, "\x04": 2}
_AFTER = "\x02"  # above _END: behind all rows of a key
AFTER_PARTITIONS = "~"  # above every partition of one key and window
_WINDOW_CHARACTERS = 32
_TIME_BYTES = 8
_BIAS = 1 << 63
_SIGNED = {Format.INT: 4, Format.BIGINT: 8}
WINDOW_MS_MIN, WINDOW_MS_MAX = -_BIAS, _BIAS - 1


class RowKey(NamedTuple):
    """The record key, window and partition of a row."""

    key: bytes  # without its window
    window_start_ms: int | None = None
    window_end_ms: int | None = None


def row_key_of(table: ServedTable, data: bytes) -> RowKey | None:
    """The key of a record. None: it has no window, though the table has windows."""
    if not table.window:
        return RowKey(data)
    count = 2 if table.window == WindowType.SESSION else 1
    if len(data) < count * _TIME_BYTES:
        return None
    at = len(data) - count * _TIME_BYTES
    if count == 1:
        (start_ms,) = struct.unpack(">q", data[at:])
        end_ms = start_ms + table.window_size_ms
    else:
        end_ms, start_ms = struct.unpack(">qq", data[at:])
    return RowKey(data[:at], start_ms, min(end_ms, WINDOW_MS_MAX))


def shard_pk(generation: str, shard: int) -> str:
    """The `pk` of one part of a table's rows."""
    return f"{generation}#{shard}"


def shard_of(key: bytes, shards: int) -> int:
    """The part that has a key's rows."""
    return positive_hash(key) % shards


def row_place(table: ServedTable, generation: str, row: RowKey, partition: int) -> Key:
    """The key of a row that a record of that partition has written."""
    window = ""
    if row.window_start_ms is not None and row.window_end_ms is not None:
        window = _time(row.window_start_ms) + _time(row.window_end_ms)
    sk = f"{escaped(table, row.key)}{_END}{window}/{partition:x}"
    return Key(shard_pk(generation, shard_of(row.key, table.shards)), sk)


def read_place(table: ServedTable, sk: str) -> tuple[RowKey, int]:
    """The row of an `sk`, and the partition that wrote it."""
    text, _, key_rest = sk.rpartition(_END)
    window, _, partition = key_rest.partition("/")
    key = unescaped(table, text)
    if len(window) != _WINDOW_CHARACTERS:
        return RowKey(key), int(partition, 16)
    start_ms, end_ms = (int(window[at : at + 16], 16) - _BIAS for at in (0, 16))
    return RowKey(key, start_ms, end_ms), int(partition, 16)


def key_range(table: ServedTable, key: bytes, from_ms: int | None, to_ms: int | None) -> tuple[str, str]:
    """The range of a key's rows whose windows start at `from_ms` or later and before `to_ms`."""
    first = escaped(table, key) + _END
    start = first + (_time(from_ms) if from_ms is not None else "")
    return start, (first + _time(to_ms) if to_ms is not None else first[:-1] + _AFTER)


def escaped(table: ServedTable, key: bytes) -> str:
    """A key as the beginning of an `sk`; the order of bytes is kept."""
    data = _flipped(table, key)
    text = data.decode("latin-1")
    if min(data, default=9) > 2:
        return text
    return "".join(_ESCAPED.get(byte) or chr(byte) for byte in data)


def unescaped(table: ServedTable, text: str) -> bytes:
    """The key of its escaped form."""
    if "\x02" not in text:
        return _flipped(table, text.encode("latin-1"))
    out = bytearray()
    characters = iter(text)
    for character in characters:
        out.append(_UNESCAPED[next(characters)] if character == "\x02" else ord(character))
    return _flipped(table, bytes(out))


def _flipped(table: ServedTable, key: bytes) -> bytes:
    if _SIGNED.get(Format(table.key_format)) != len(key):
        return key
    return bytes([key[0] ^ 0x80]) + key[1:]


def _time(time_ms: int) -> str:
    return f"{min(max(time_ms, WINDOW_MS_MIN), WINDOW_MS_MAX) + _BIAS:016x}"
