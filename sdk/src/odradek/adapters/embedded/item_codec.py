"""Items at rest in SQLite: one msgpack map per item.

msgpack's integers end at 64 bits; larger ones (a table's numbers have 38 digits) are extension type 1, their decimal
digits in ASCII.
"""

from __future__ import annotations

from typing import Any

import msgpack

from odradek.ports.table import Item

_EXT_NUMBER = 1


def encode_item(item: Item) -> bytes:
    """Pack an item that has passed validation."""
    try:
        packed: bytes = msgpack.packb(item)
    except OverflowError:
        packed = msgpack.packb(_with_large_numbers(item))
    return packed


def decode_item(data: bytes) -> Item:
    """Unpack what `encode_item` packed."""
    item: Item = msgpack.unpackb(data, ext_hook=_ext_hook, max_map_len=2**31 - 1, max_array_len=2**31 - 1)
    return item


def _with_large_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_large_numbers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_large_numbers(each) for each in value]
    if type(value) is int and not -(2**63) <= value < 2**64:
        return msgpack.ExtType(_EXT_NUMBER, str(value).encode())
    return value


def _ext_hook(code: int, data: bytes) -> int:
    if code != _EXT_NUMBER:
        raise ValueError(f"unknown extension type {code}: a newer release has written it")
    return int(data)
