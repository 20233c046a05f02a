"""The size of a table item by DynamoDB's rules, which billing and the limit of 400 KB use.

Rules (DynamoDB developer guide, "DynamoDB item sizes and formats"):

    name                 its UTF-8 bytes
    str                  its UTF-8 bytes
    bytes                its length
    bool                 1
    number               about 1 byte for two significant digits, plus 1; one more if negative; at most 21
    list, dict           3, plus 1 for each element or pair, plus the elements, keys and values

An item is the sum of its attributes' names and values, including the key attributes `pk` and `sk`. The guide calls the
number rule approximate; an error of a few bytes matters only at the boundary of a 1 KB unit.
"""

from __future__ import annotations

from typing import Any

_NUMBER_BYTES_MAX = 21
_KEY_NAMES_BYTES = len("pk") + len("sk")


def item_size(pk: str, sk: str, item: dict[str, Any]) -> int:
    """Return the bytes of a whole item: its key and its attributes."""
    return _KEY_NAMES_BYTES + _text_size(pk) + _text_size(sk) + attributes_size(item)


def attributes_size(item: dict[str, Any]) -> int:
    """Bytes of an item's attributes without its key."""
    size = 0
    for name, value in item.items():
        size += len(name) if name.isascii() else len(name.encode())
        size += len(value) if type(value) is bytes else value_size(value)
    return size


def value_size(value: Any) -> int:
    """Return the bytes of one attribute value."""
    value_type = type(value)
    if value_type is bytes:
        return len(value)
    if value_type is str:
        return _text_size(value)
    if value_type is int:
        return _number_size(value)
    if value_type is bool:
        return 1
    if value_type is list:
        size = 3 + len(value)
        for element in value:
            size += len(element) if type(element) is bytes else value_size(element)
        return size
    if value_type is dict:
        return 3 + len(value) + attributes_size(value)
    raise ValueError(f"an item cannot hold a value of type {value_type.__name__}")


def _text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _number_size(number: int) -> int:
    if number == 0:
        return 1
    digits = str(abs(number))
    significant = len(digits) if digits[-1] != "0" else len(digits.rstrip("0"))
    # Digits are stored in pairs aligned to the decimal point, so 100 has one pair and 123 two.
    if (len(digits) - significant) % 2:
        significant += 1
    size = (significant + 1) // 2 + 1 + (number < 0)
    return min(size, _NUMBER_BYTES_MAX)
