"""Compatibility levels: which earlier versions a new schema is compared with, and in which direction. Pure.

    level        the new schema reads what        the earlier schemas read what
                 was written with                 is written with the new one
    BACKWARD     the latest version               -
    FORWARD      -                                the latest version
    FULL         the latest version               the latest version
    ..._TRANSITIVE   every version instead of the latest
    NONE         nothing is compared

All schemas of a subject have one language: one of another language is incompatible at every level but NONE.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from odradek.registry import compatibility_avro, compatibility_json, compatibility_protobuf
from odradek.registry.avro import AvroType
from odradek.registry.budget import Budget
from odradek.registry.errors import SchemaInvalid
from odradek.registry.json_schema import Document
from odradek.registry.schemas import Parsed

_MESSAGES_MAX = 20
_MESSAGE_LENGTH_MAX = 400


class Level(StrEnum):
    """Confluent's names."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


DEFAULT_LEVEL = Level.BACKWARD


def compared(level: Level, versions: Sequence[int]) -> Sequence[int]:
    """Return the versions that a new schema is compared with, newest first, out of the ascending ones given."""
    if level is Level.NONE:
        return ()
    newest = list(reversed(versions))
    return newest if level.value.endswith("_TRANSITIVE") else newest[:1]


def problems(level: Level, new: Parsed, old: Parsed, budget: Budget | None = None) -> list[str]:
    """List the incompatibilities of a new schema with an old one, a sentence each."""
    budget = budget or Budget()
    if level is Level.NONE:
        return []
    if new.schema.kind != old.schema.kind:
        return [f"the earlier schema is {old.schema.kind}, this one {new.schema.kind}"]
    name = level.value.removesuffix("_TRANSITIVE")
    messages: list[str] = []
    if name in ("BACKWARD", "FULL"):
        messages += [f"new schema reading earlier data: {message}" for message in _unreadable(new, old, budget)]
    if name in ("FORWARD", "FULL"):
        messages += [f"earlier schema reading new data: {message}" for message in _unreadable(old, new, budget)]
    return [_shortened(message) for message in messages[:_MESSAGES_MAX]]


def _shortened(message: str) -> str:
    return (
        message
        if len(message) <= _MESSAGE_LENGTH_MAX
        else f"{message[:100]} ... {message[100 - _MESSAGE_LENGTH_MAX :]}"
    )


def _unreadable(reader: Parsed, writer: Parsed, budget: Budget) -> list[str]:
    mine, theirs = reader.tree, writer.tree
    if isinstance(mine, AvroType) and isinstance(theirs, AvroType):
        try:
            return compatibility_avro.unreadable(mine, theirs, budget)
        except SchemaInvalid as error:
            return [str(error)]
        except RecursionError:
            return ["/: the types are nested too deeply to be compared"]
    if isinstance(mine, Document) and isinstance(theirs, Document):
        return compatibility_json.unreadable(mine, theirs, budget)
    assert isinstance(mine, tuple)
    assert isinstance(theirs, tuple)
    return compatibility_protobuf.unreadable(mine[0], theirs[0])
