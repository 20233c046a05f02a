"""Avro values of served rows: a record within itself is read to a bounded depth."""

from __future__ import annotations

import json
from typing import Any

import pytest
from odradek.errors import FormatError
from odradek.served.avro import decode_avro

NODE = json.dumps({"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]})
NULL, ANOTHER = b"\x00", b"\x02"


def test_a_record_within_itself() -> None:
    value: Any = decode_avro(ANOTHER * 29 + NULL, NODE)
    levels = 0
    while value is not None:
        value, levels = value["next"], levels + 1
    assert levels == 30


def test_one_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(FormatError, match="nested too deeply"):
        decode_avro(ANOTHER * 59 + NULL, NODE)
