"""Item sizes as the DynamoDB developer guide counts them."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.format.item_size import attributes_size, item_size, value_size


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("", 0),
        ("abc", 3),
        ("größer", 8),
        ("☃", 3),
        (b"", 0),
        (b"\x00" * 60, 60),
        (True, 1),
        (False, 1),
        # about 1 byte for two significant digits, 1 more, and 1 for a sign
        (7, 2),
        (27, 2),
        (-27, 3),
        (461, 3),
        (461_9, 3),
        (100, 2),  # trailing zeros are not significant
        (1_000_000, 2),
        (2**63 - 1, 11),
        (10**38 - 1, 20),
        (-(10**38 - 1), 21),
        # 3 for a list or a map, 1 for each element or pair
        ([], 3),
        ({}, 3),
        ([b"12345", b"12"], 3 + 2 + 5 + 2),
        ({"s": 9, "e": True}, 3 + 2 + (1 + 2) + (1 + 1)),
        ({"map": {"list": ["x"]}}, 3 + 1 + 3 + (3 + 1 + 4 + (3 + 1 + 1))),
    ],
)
def test_value_size(value: Any, size: int) -> None:
    assert value_size(value) == size


def test_the_guides_example() -> None:
    """An attribute "shirt-color" with the value "R" has 12 bytes; with "shirt-size" and "M" the item has 23."""
    assert attributes_size({"shirt-color": "R"}) == 12
    assert attributes_size({"shirt-color": "R", "shirt-size": "M"}) == 23


def test_an_item_counts_its_key() -> None:
    assert item_size("pk-value", "sk", {}) == len("pk" + "pk-value" + "sk" + "sk")
    assert item_size("é", "sk", {"n": 1}) == 2 + 2 + 2 + 2 + 1 + 2


def test_a_value_that_no_table_stores() -> None:
    with pytest.raises(ValueError, match="float"):
        value_size(1.5)
