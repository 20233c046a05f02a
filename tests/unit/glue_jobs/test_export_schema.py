"""Schemas of JSON values: what is seen, and how a table grows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.errors import KafkaError
from odradek.glue_jobs.export_table import schema as module
from odradek.glue_jobs.export_table.schema import grown, merge, schema_of
from pyspark.sql.types import StructType

from tests.support.examples import examples

LEAF = st.sampled_from([None, True, 1, 2**63, 1.5, "x", [], {}])
JSON = LEAF | st.lists(LEAF, max_size=2) | st.dictionaries(st.sampled_from("ab"), LEAF | st.lists(LEAF, max_size=2))


def seen(*values: Any) -> str:
    return schema_of([json.dumps(value).encode() for value in values]).simpleString()


def test_the_types_of_values() -> None:
    assert seen({"b": True, "i": 1, "d": 1.5, "s": "x", "n": None, "l": [1, 2.5], "e": [], "o": {"x": 1}}) == (
        "struct<b:boolean,d:double,i:bigint,l:array<double>,o:struct<x:bigint>,s:string>"
    )
    assert seen({"a": 1}, {"a": 1.5}) == "struct<a:double>"
    assert seen({"a": 1}, {"a": "x"}, {"b": {"x": 1}}, {"b": [1]}) == "struct<a:string,b:string>"
    assert seen({"a": 2**63}) == "struct<a:double>"


def test_what_is_no_json_object_says_nothing() -> None:
    assert schema_of([None, b"", b"junk", b"[1]", b"\xff", b"[" * 100_000]).simpleString() == "struct<>"


@settings(max_examples=examples(40))
@given(st.lists(st.dictionaries(st.sampled_from("ab"), JSON), max_size=4))
def test_the_order_in_which_values_are_seen_does_not_matter(values: list[Any]) -> None:
    whole = schema_of([json.dumps(value).encode() for value in values])
    parts: Any = StructType([])
    for value in reversed(values):
        parts = merge(parts, schema_of([json.dumps(value).encode()]))
    assert parts == whole


def test_a_table_gets_columns_and_keeps_those_it_has() -> None:
    table = schema_of([b'{"a": 1, "l": [{"p": 1}], "o": {"x": "s"}}'])
    new = schema_of([b'{"a": "text", "b": 1, "o": {"x": 1, "y": 2.5}, "l": [{"q": true}]}'])
    assert grown(table, new).simpleString() == (
        "struct<a:bigint,l:array<struct<p:bigint,q:boolean>>,o:struct<x:string,y:double>,b:bigint>"
    )
    assert grown(table, StructType([])) == table


def test_names_are_one_whatever_their_case() -> None:
    assert grown(schema_of([b'{"Id": 2}']), schema_of([b'{"id": 1}'])).simpleString() == "struct<Id:bigint>"


def test_data_in_field_names_does_not_make_columns_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIELDS_MAX", 3)
    with pytest.raises(KafkaError, match="more than 3 different fields"):
        grown(StructType([]), schema_of([b'{"a": 1, "b": {"c": 1, "d": 2}}']))
