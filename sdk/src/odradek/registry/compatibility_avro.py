"""Avro compatibility: the reasons why a reader's schema cannot read a writer's records, by Avro's schema resolution.

    reader      writer
    long        int                    a number widens: int -> long -> float -> double; string and bytes are one
    record      record, same name      each field of the reader is the writer's (by name or alias), or has a default
    enum        enum, same name        the reader has each symbol of the writer, or a default
    fixed       fixed, same name       and the same size
    array, map  array, map             the reader's element reads the writer's
    union       anything               some branch reads it
    anything    union                  it reads every branch

Names are compared without their namespace, or by an alias of the reader, as Java's SchemaCompatibility does. Logical
types are not compared. Pure and total; a pair that is being compared counts as readable, which ends cycles.
"""

from __future__ import annotations

from odradek.registry.avro import AvroType
from odradek.registry.budget import Budget

Pair = tuple[int, int]  # ids of a reader's and a writer's node

_WIDENS = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "string": {"bytes"},
    "bytes": {"string"},
}


def unreadable(reader: AvroType, writer: AvroType, budget: Budget | None = None) -> list[str]:
    """List the reasons why the reader cannot read the writer's records; empty if it can. Raises SchemaInvalid."""
    return _compare(reader, writer, "", _Memory(budget or Budget()))


class _Memory:
    """Pairs of types that are being compared or were found readable, and pairs that certainly are not readable.

    A pair that fails although all open pairs count as readable certainly fails. A pair that succeeds may rest on that
    assumption, so it is forgotten with the union's branch that it was tried for. Each pair is therefore compared a
    bounded number of times.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.readable: dict[Pair, None] = {}  # in the order in which they were found
        self.failed: dict[Pair, list[str]] = {}

    def forget_after(self, count: int) -> None:
        """Forget the readable pairs except the first `count`."""
        while len(self.readable) > count:
            self.readable.popitem()


def _compare(reader: AvroType, writer: AvroType, at: str, memory: _Memory) -> list[str]:
    memory.budget.spend()
    pair = (id(reader), id(writer))
    if pair in memory.readable:
        return []
    if pair in memory.failed:
        return memory.failed[pair]
    readable_count = len(memory.readable)
    memory.readable[pair] = None
    problems = _differences(reader, writer, at, memory)
    if problems:
        memory.forget_after(readable_count)
        memory.failed[pair] = problems
    return problems


def _differences(reader: AvroType, writer: AvroType, at: str, memory: _Memory) -> list[str]:
    location = at or "/"
    if writer.kind == "union":
        return [
            problem
            for i, branch in enumerate(writer.branches)
            for problem in _compare(reader, branch, f"{at}/{i}", memory)
        ]
    if reader.kind == "union":
        for branch in reader.branches:
            if not _compare(branch, writer, at, memory):
                return []
        return [f"{location}: no branch of the reader's union can read the writer's {_title(writer)}"]
    if reader.kind != writer.kind:
        if writer.kind in _WIDENS.get(reader.kind, ()):
            return []
        return [f"{location}: the reader's {_title(reader)} cannot read the writer's {_title(writer)}"]
    if reader.kind in ("record", "enum", "fixed"):
        if reader.short_name != writer.short_name and writer.name not in reader.aliases:
            return [f"{location}: the reader's {_title(reader)} and the writer's {_title(writer)} have different names"]
        if reader.kind == "record":
            return _records(reader, writer, at, memory)
        if reader.kind == "enum":
            reader_symbols = set(reader.symbols)
            lost = [symbol for symbol in writer.symbols if symbol not in reader_symbols]
            if lost and not reader.has_default:
                return [
                    f"{location}: the reader's enum has no default and lacks the writer's symbols {', '.join(lost)}"
                ]
            return []
        if reader.size != writer.size:
            return [f"{location}: the reader's fixed has {reader.size} bytes, the writer's {writer.size}"]
        return []
    if reader.element is not None and writer.element is not None:
        key = "items" if reader.kind == "array" else "values"
        return _compare(reader.element, writer.element, f"{at}/{key}", memory)
    return []


def _records(reader: AvroType, writer: AvroType, at: str, memory: _Memory) -> list[str]:
    written = {field.name: field for field in writer.fields}
    problems = []
    for i, field in enumerate(reader.fields):
        where = f"{at}/fields/{i}"
        written_field = next((written[name] for name in (field.name, *field.aliases) if name in written), None)
        if written_field is not None:
            problems += _compare(field.type, written_field.type, f"{where}/type", memory)
        elif not field.has_default:
            problems.append(f"{where}: the reader's field {field.name!r} has no default, and the writer lacks it")
    return problems


def _title(avro_type: AvroType) -> str:
    return f"{avro_type.kind} {avro_type.name}" if avro_type.name else avro_type.kind
