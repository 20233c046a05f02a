"""Transforms: what Kafka's own jars make of every case, Confluent's, dates, and chains with predicates."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from odradek.connect import DataError
from odradek.connect.data import INT64, STRING, Struct, struct
from odradek.connect.errors import ConfigError
from odradek.connect.plugins import find
from odradek.connect.record import Header, SinkRecord
from odradek.connect.transforms.chain import make_chain
from odradek.connect.transforms.date_format import DateFormat

from tests.support.connect.golden import GOLDEN, read_golden
from tests.support.connect.transform_cases import cases, explained, outcome

_SCHEMA = struct({"id": INT64, "to": STRING})


def test_every_transform_gives_what_kafka_gives() -> None:
    given, java = list(cases()), read_golden(GOLDEN)
    assert len(given) == len(java), "the cases changed: run tests/java with ODRADEK_WRITE_GOLDEN=1"
    different = [
        (case, theirs, ours)
        for case, theirs in zip(given, java, strict=True)
        if (ours := outcome(case)) != theirs and not explained(case, theirs)
    ]
    assert different == []


def test_every_option_of_kafkas_transforms_is_in_a_case() -> None:
    given: dict[str, set[str]] = {}
    for case in cases():
        given.setdefault(case["class"], set()).update(case.get("configs", {}))
    options = {
        case["class"]: set(theirs["options"])
        for case, theirs in zip(cases(), read_golden(GOLDEN), strict=True)
        if "options" in case
    }
    assert {name: found - given[name] for name, found in options.items() if found - given[name]} == {}


def record(value: Any = None, **more: Any) -> SinkRecord:
    schema = value.schema if isinstance(value, Struct) else None
    return SinkRecord(topic="t", partition=0, offset=1, value=value, value_schema=schema, **more)


def applied(name: str, given: SinkRecord, **configs: str) -> Any:
    plugin: Any = find("transforms", name).load()()
    plugin.configure({key.replace("_", "."): value for key, value in configs.items()})
    return plugin.apply(given)


def test_extract_topic() -> None:
    value = Struct(_SCHEMA, {"id": 1, "to": "other"})
    assert applied("io.confluent.connect.transforms.ExtractTopic$Value", record(value), field="to").topic == "other"
    assert applied("ExtractTopic$Value", record({"a": {"b": "x"}}), field="a.b", field_syntax_version="V2").topic == "x"
    with pytest.raises(DataError, match="topic must be a text"):
        applied("ExtractTopic$Value", record({"a": 1}), field="missing")
    kept = applied("ExtractTopic$Value", record({"a": 1}), field="missing", skip_missing_or_null="true")
    assert kept.topic == "t"
    headers = (Header("route", "x"), Header("route", "y"))
    assert applied("ExtractTopic$Header", record(headers=headers), field="route").topic == "y"


@pytest.mark.parametrize(("behavior", "is_kept"), [("drop_silent", False), ("drop_warn", False), ("warn", True)])
def test_tombstone_handler(behavior: str, is_kept: bool) -> None:
    assert (applied("TombstoneHandler", record(), behavior=behavior) is not None) is is_kept
    with pytest.raises(DataError, match="has no value"):
        applied("TombstoneHandler", record(), behavior="fail")
    assert applied("TombstoneHandler", record("v"), behavior="fail").value == "v"


def test_drop_sets_the_value_to_null() -> None:
    value = Struct(_SCHEMA, {"id": 1, "to": "x"})
    assert applied("Drop$Value", record(value)).value_schema is None
    assert applied("Drop$Value", record(value), schema_behavior="force_optional").value_schema.optional
    with pytest.raises(DataError, match="required"):
        applied("Drop$Value", record(value), schema_behavior="validate")


def test_a_chain_stops_at_a_dropped_record_and_obeys_predicates() -> None:
    configs = {
        "transforms": "a, b",
        "transforms.a.type": "InsertHeader",
        "transforms.a.header": "seen",
        "transforms.a.value.literal": "1",
        "transforms.b.type": "Filter",
        "transforms.b.predicate": "p",
        "transforms.b.negate": "true",
        "predicates": "p",
        "predicates.p.type": "TopicNameMatches",
        "predicates.p.pattern": "t.*",
    }
    first, second = make_chain(configs)
    changed = first.apply(record("v"))
    assert changed is not None
    assert changed.headers[0].value == 1
    assert second.apply(changed) is changed
    assert second.apply(changed.replace(topic="x")) is None


def test_every_problem_of_a_chain_is_told() -> None:
    configs = {
        "transforms": "a,b,c",
        "transforms.a.type": "Castt$Value",
        "transforms.b.type": "Cast$Value",
        "transforms.b.spec": "x:int7",
        "transforms.b.predicate": "nobody",
    }
    with pytest.raises(ConfigError) as refused:
        make_chain(configs)
    for text in ("did you mean Cast$Value", "'int7' is not a type", "'nobody'", "transforms.c.type is required"):
        assert text in str(refused.value)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss.SSS", "2024-02-29 23:59:58.007"),
        ("EEE, d MMM yyyy h:mm:ss.SSS a", "Thu, 29 Feb 2024 11:59:58.007 PM"),
        ("yyMMddHHmmssSSS", "240229235958007"),
        ("D yyyy kk-mm-ss-S'x'", "60 2024 23-59-58-7x"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSX", "2024-02-29T23:59:58.007Z"),
    ],
)
def test_dates_by_java_patterns(pattern: str, text: str) -> None:
    moment = dt.datetime(2024, 2, 29, 23, 59, 58, 7_000, tzinfo=dt.UTC)
    assert DateFormat(pattern).format(moment) == text
    assert DateFormat(pattern).parse(text) == moment


@pytest.mark.parametrize("text", ["2024", "x", "2024-13-99T", ""])
def test_a_text_that_does_not_match_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="does not match the format"):
        DateFormat("yyyy-MM-dd HH").parse(text)
