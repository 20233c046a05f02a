"""A damaged head is a FormatError, whatever is damaged."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.engine.partition.head import PartitionHead, ProducerState, decode_head, encode_head
from odradek.errors import FormatError
from odradek.format.tail_entry import TailEntry, encode_tail_entry

HEAD = PartitionHead(
    next_offset=3,
    tail=(encode_tail_entry(TailEntry(bytes(16), 0, 100, 3, 5)),),
    producers={7: ProducerState(0, 3)},
)


def test_a_head_comes_back_as_it_was() -> None:
    assert decode_head(encode_head(HEAD)) == HEAD


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("v", 99),
        ("no", "3"),
        ("no", True),
        ("t", b""),
        ("t", [True]),
        ("t", [b"ok", 7]),
        ("p", []),
        ("p", {"seven": {"e": 0, "s": 3}}),
        ("p", {"7": 0}),
        ("p", {"7": [0, 3]}),
        ("p", {"7": {"e": 0}}),
        ("p", {"7": {"e": 0, "s": 3, "r": b"x"}}),
    ],
)
def test_a_damaged_head_is_a_format_error(name: str, value: Any) -> None:
    with pytest.raises(FormatError):
        decode_head({**encode_head(HEAD), name: value})
