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


def _compare(reader: AvroType, writer: AvroType, at: str, asked: _Memory) -> list[str]:
    asked.budget.spend()
    pair = (id(reader), id(writer))
    if pair in asked.readable:
        return []
    if pair in asked.failed:
        return asked.failed[pair]
    known = len(asked.readable)
    asked.readable[pair] = None
    problems = _differences(reader, writer, at, asked)
    if problems:
        asked.forget_after(known)
        asked.failed[pair] = problems
    return problems


def _differences(reader: AvroType, writer: AvroType, at: str, asked: _Memory) -> list[str]:
    here = at or "/"
    if writer.kind == "union":
        return [
            problem
            for i, branch in enumerate(writer.branches)
            for problem in _compare(reader, branch, f"{at}/{i}", asked)
        ]
    if reader.kind == "union":
        for branch in reader.branches:
            if not _compare(branch, writer, at, asked):
                return []
        return [f"{here}: no branch of the reader's union can read the writer's {_title(writer)}"]
    if reader.kind != writer.kind:
        if writer.kind in _WIDENS.get(reader.kind, ()):
            return []
        return [f"{here}: the reader's {_title(reader)} cannot read the writer's {_title(writer)}"]
    if reader.kind in ("record", "enum", "fixed"):
        if reader.short_name != writer.short_name and writer.name not in reader.aliases:
            return [f"{here}: the reader's {_title(reader)} and the writer's {_title(writer)} have different names"]
        if reader.kind == "record":
            return _records(reader, writer, at, asked)
        if reader.kind == "enum":
            known = set(reader.symbols)
            lost = [symbol for symbol in writer.symbols if symbol not in known]
            if lost and not reader.has_default:
                return [f"{here}: the reader's enum has no default and lacks the writer's symbols {', '.join(lost)}"]
            return []
        if reader.size != writer.size:
            return [f"{here}: the reader's fixed has {reader.size} bytes, the writer's {writer.size}"]
        return []
    if reader.element is not None and writer.element is not None:
        key = "items" if reader.kind == "array" else "values"
        return _compare(reader.element, writer.element, f"{at}/{key}", asked)
    return []


def _records(reader: AvroType, writer: AvroType, at: str, asked: _Memory) -> list[str]:
    written = {each.name: each for each in writer.fields}
    problems = []
    for i, each in enumerate(reader.fields):
        where = f"{at}/fields/{i}"
        found = next((written[name] for name in (each.name, *each.aliases) if name in written), None)
        if found is not None:
            problems += _compare(each.type, found.type, f"{where}/type", asked)
        elif not each.has_default:
            problems.append(f"{where}: the reader's field {each.name!r} has no default, and the writer lacks it")
    return problems


def _title(kind: AvroType) -> str:
    return f"{kind.kind} {kind.name}" if kind.name else kind.kind
