"""Schemas made to be slow, large or broken: an answer in bounded work, beside the event loop, never a 500."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from odradek.adapters.memory import MemoryStore
from odradek.limits import SCHEMA_BYTES_MAX
from odradek.registry.beside import AT_ONCE, Beside
from odradek.registry.budget import Budget
from odradek.registry.compatibility import Level
from odradek.registry.errors import RegistryError
from odradek.registry.schemas import Kind, Reference, Schema
from odradek.registry.subjects import Subjects
from odradek.system import SystemClock
from odradek.testing.seeded_rng import SeededRng


def subjects() -> Subjects:
    return Subjects(MemoryStore().catalog, SystemClock(), SeededRng(0))


async def outcome(registering: Awaitable[object]) -> str:
    """The refusal, which must be one of the client's doing; "" where it is registered."""
    try:
        await registering
    except RegistryError as refused:
        if refused.status in (409, 422):
            return refused.message
        raise
    return ""


def obj(**more: Any) -> dict[str, Any]:
    return {"type": "object", **more}


def backtracking(property_type: str) -> str:
    """A pattern for which a backtracking matcher needs 2^40 steps with this name of a property."""
    return json.dumps(
        obj(patternProperties={"^(a+)+$": {"type": "string"}}, properties={"a" * 40 + "!": {"type": property_type}})
    )


def many_patterns(property_type: str) -> str:
    properties = {f"{i:x}" * 8: {"type": property_type} for i in range(3_000)}
    return json.dumps(obj(patternProperties={f"(a|b)*a(a|b){{{i % 900}}}": True for i in range(2_000)},
                          properties=properties))  # fmt: skip


def anchors(property_type: str) -> str:
    """Each $ref is looked for in the whole document."""
    return json.dumps(
        obj(properties={f"p{i}": {"$ref": "#x"} for i in range(7_000)}, last={"$anchor": "x", "type": property_type})
    )


def tangle(property_type: str) -> str:
    """Every definition refers to every other through anyOf."""
    names = [f"d{i}" for i in range(20)]
    every = [{"$ref": f"#/$defs/{name}"} for name in names]
    defs = {
        name: obj(properties={other: {"anyOf": every} for other in names}, minProperties=i, title=property_type)
        for i, name in enumerate(names)
    }
    defs["d0"]["properties"]["v"] = {"type": property_type}
    return json.dumps({"$defs": defs, "anyOf": every})


def long_names(property_type: str) -> str:
    """Every problem would have the long name in it."""
    inner = obj(properties={f"p{i}": {"type": property_type} for i in range(4_000)})
    return json.dumps(obj(properties={"x" * 100_000: inner}))


def long_enum(first: str) -> str:
    return json.dumps({"enum": [first, *range(35_000)]})


def avro_default(value: str) -> str:
    """The default fits no branch, which shows at its innermost part only: 2^60 ways lead there."""
    nested: Any = {"y": value}
    for _ in range(60):
        nested = {"x": nested}
    b = {"type": "record", "name": "B", "fields": [{"name": "x", "type": ["null", "A", "B"]}]}
    a = {"type": "record", "name": "A", "fields": [{"name": "x", "type": ["null", b, "A"]}]}
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "f", "type": a, "default": nested}]})


def avro_symbols(first: str) -> str:
    names = [first, *(f"S{i}" for i in range(20_000))]
    return json.dumps({"type": "enum", "name": "E", "symbols": names})


def avro_unions(last_type: str) -> str:
    """Records whose unions hold all the others, the difference at the very end."""
    records = []
    for i in range(60):
        all_before = ["null", *(f"R{j}" for j in range(i))]
        fields = [{"name": "x", "type": all_before}, {"name": "y", "type": f"R{i - 1}" if i else last_type}]
        records.append({"name": f"f{i}", "type": {"type": "record", "name": f"R{i}", "fields": fields}})
    last = {"name": "z", "type": [f"R{i}" for i in range(60)]}
    return json.dumps({"type": "record", "name": "Top", "fields": [*records, last]})


def avro_chain(last_type: str) -> str:
    """Types defined one by another, compared from the last: deeper than Python's stack."""
    fields = []
    for i in range(1_500):
        inner = [{"name": "next", "type": f"R{i - 1}" if i else last_type}]
        fields.append({"name": f"f{i}", "type": {"type": "record", "name": f"R{i}", "fields": inner}})
    return json.dumps({"type": "record", "name": "Top", "fields": fields})


def avro_long_names(last_type: str) -> str:
    enums = [{"name": f"f{i}", "type": {"type": "enum", "name": f"E{i}", "symbols": ["A"]}} for i in range(1_500)]
    return json.dumps({"type": "record", "name": "R", "namespace": "n" * 100_000, "fields": [
        {"name": "v", "type": last_type}, *enums]})  # fmt: skip


def proto_reserved(field_type: str) -> str:
    reserved = "".join(f"reserved {i}; " for i in range(30_000, 39_000))
    fields = "".join(f"bool f{i}={i};" for i in range(2, 7_000))
    return f'syntax="proto3"; message M {{ {field_type} f1=1; {reserved} {fields} }}'


def proto_long_names(field_type: str) -> str:
    name = "N" * 100_000
    fields = "".join(f"T f{i}={i};" for i in range(2, 8_000))
    return f'syntax="proto3"; message {name} {{ message T {{}} {field_type} f1=1; {fields} }}'


HOSTILE: list[tuple[Kind, Callable[[str], str], str, str]] = [
    ("JSON", backtracking, "string", "integer"),
    ("JSON", many_patterns, "string", "integer"),
    ("JSON", anchors, "string", "integer"),
    ("JSON", tangle, "string", "integer"),
    ("JSON", long_names, "string", "integer"),
    ("JSON", long_enum, "a", "b"),
    ("AVRO", avro_default, "a", "b"),
    ("AVRO", avro_symbols, "A", "B"),
    ("AVRO", avro_unions, "string", "int"),
    ("AVRO", avro_chain, "string", "int"),
    ("AVRO", avro_long_names, "string", "int"),
    ("PROTOBUF", proto_reserved, "string", "int32"),
    ("PROTOBUF", proto_long_names, "string", "int32"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("schema_type", "make", "one", "other"), HOSTILE, ids=[case[1].__name__ for case in HOSTILE])
async def test_a_hostile_schema_holds_nobody_up(
    schema_type: Kind, make: Callable[[str], str], one: str, other: str
) -> None:
    """While it is registered and compared, the loop goes round; and it has an answer, of bounded size."""
    registry = subjects()
    await registry.set_config("s", level=Level.FULL_TRANSITIVE)
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    turning = asyncio.create_task(turn())
    try:
        for text in (make(one), make(other)):
            assert len(text) <= SCHEMA_BYTES_MAX
            before = turns
            message = await outcome(registry.register("s", Schema(schema_type, text)))
            assert len(message) < 20_000
            assert turns > before
    finally:
        turning.cancel()


@pytest.mark.parametrize(
    ("schema_type", "text"),
    [
        ("JSON", '{"maxLength": NaN}'),
        ("JSON", '{"maxLength": 1e999}'),
        ("JSON", '{"minimum": Infinity}'),
        ("JSON", '{"const": NaN}'),
        ("JSON", '{"const": 1e999}'),
        ("JSON", '{"title": "\\ud800"}'),
        ("JSON", '{"properties": {"\\udc00": true}}'),
        ("JSON", '{"title": "\ud800"}'),
        ("JSON", '{"multipleOf": ' + "9" * 5_000 + "}"),
        ("JSON", "[" * 200_000),
        ("JSON", '{"not":' * 20_000),
        ("AVRO", '{"type": "fixed", "name": "F", "size": NaN}'),
        ("AVRO", '{"type": "record", "name": "R", "fields": [{"name": "f", "type": "double", "default": NaN}]}'),
        ("AVRO", '{"type": "record", "name": "R", "fields": [{"name": "f", "type": "double", "default": -1e999}]}'),
        ("AVRO", '{"type": "string", "doc": "\\ud800"}'),
        ("AVRO", '{"type": "string", "doc": "\udfff"}'),
        ("AVRO", '{"type": {"type": ' * 10_000),
        ("PROTOBUF", 'syntax = "proto3"; message M { string s = 0x' + "F" * 5_000 + "; }"),
        ("PROTOBUF", 'syntax = "proto3"; message M { reserved 0x' + "F" * 5_000 + "; string s = 1; }"),
        ("PROTOBUF", 'syntax = "proto2"; message M { optional string s = 1 [default = "\ud800"]; }'),
        ("PROTOBUF", 'syntax = "proto2"; message M { optional string s = 1 [default = "\\ud800"]; }'),
        ("PROTOBUF", "message M {" * 5_000),
    ],
)
@pytest.mark.parametrize("normalize", [False, True])
async def test_what_no_text_can_hold_is_refused(schema_type: Kind, text: str, normalize: bool) -> None:
    with pytest.raises(RegistryError) as refused:
        await subjects().register("s", Schema(schema_type, text), normalize=normalize)
    assert refused.value.error_code == 42201, refused.value.message
    json.dumps(refused.value.message, ensure_ascii=False).encode()  # it can be sent


async def test_names_of_references_are_checked() -> None:
    registry = subjects()
    await registry.register("a", Schema("AVRO", '"string"'))
    for name in ("\ud800", "n" * 100_000):
        with pytest.raises(RegistryError) as refused:
            await registry.register("b", Schema("AVRO", '"string"', (Reference(name, "a", 1),)))
        assert refused.value.error_code == 42201


async def test_who_stops_waiting_stops_the_work() -> None:
    """A thread cannot be ended from outside: its budget ends, so that two hostile requests do not keep both threads."""
    beside, ended = Beside(), threading.Event()

    def endless(budget: Budget) -> None:
        try:
            while True:
                budget.spend(0)
                time.sleep(0.001)
        finally:
            ended.set()

    for _ in range(AT_ONCE + 1):
        ended.clear()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await beside.run(endless)
        assert await asyncio.to_thread(ended.wait, 30)
    assert await beside.run(lambda budget: 7) == 7
