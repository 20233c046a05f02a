"""The messages of Kafka's protocol by the JSON schemas that lie in the jar of Kafka's clients: `common/message/*.json`.

A schema says for each field its type, the versions that have it, those in which it may be null, and those in which it
is a tagged field. It is read as Kafka's generator of messages reads it; nothing of kio is in here, which the server
uses: a fault of one must not hide behind the same fault of the other.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*')
_FOLDER = "common/message/"


@dataclass(frozen=True)
class Versions:
    """An inclusive range of versions; empty where `low` exceeds `high`."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high


NO_VERSION = Versions(1, 0)
_LAST = 32_767


def parse_versions(text: str | None) -> Versions:
    """Parse "3", "2-5", "4+" or "none"; None is no version."""
    if not text or text == "none":
        return NO_VERSION
    if text.endswith("+"):
        return Versions(int(text[:-1]), _LAST)
    low, _, high = text.partition("-")
    return Versions(int(low), int(high or low))


@dataclass(frozen=True)
class Field:
    """A field of a message or of a structure in it."""

    name: str
    type: str  # "int32", "string", "[]int32", "[]Topic", "Cursor" ...
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    flexible: Versions | None  # of this field alone: the client id of a request's header stays as it was
    default: Any
    fields: tuple[Field, ...] = ()

    @property
    def element(self) -> str:
        """The type of an array's elements; of another field, its own."""
        return self.type.removeprefix("[]")

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")


@dataclass(frozen=True)
class Message:
    """A request, a response or a header."""

    name: str
    api_key: int | None
    valid: Versions
    flexible: Versions
    fields: tuple[Field, ...]
    structures: Mapping[str, tuple[Field, ...]] = field(default_factory=dict)  # by name


def parse_message(text: str) -> Message:
    """Parse a schema: JSON with comments."""
    tree = json.loads(_COMMENT.sub(lambda match: match.group(1) or "", text))
    structures = {name["name"]: _fields(name["fields"]) for name in tree.get("commonStructs", ())}
    fields = _fields(tree.get("fields", ()))
    for level in (fields, *structures.values()):
        structures = {**_structures(level), **structures}
    return Message(
        tree["name"],
        tree.get("apiKey"),
        parse_versions(tree.get("validVersions")),
        parse_versions(tree.get("flexibleVersions")),
        fields,
        structures,
    )


def _fields(trees: Iterable[Mapping[str, Any]]) -> tuple[Field, ...]:
    return tuple(
        Field(
            tree["name"],
            tree["type"],
            parse_versions(tree["versions"]),
            parse_versions(tree.get("nullableVersions")),
            parse_versions(tree.get("taggedVersions")),
            tree.get("tag"),
            parse_versions(tree["flexibleVersions"]) if "flexibleVersions" in tree else None,
            tree.get("default"),
            _fields(tree.get("fields", ())),
        )
        for tree in trees
    )


def _structures(fields: Sequence[Field]) -> dict[str, tuple[Field, ...]]:
    by_name: dict[str, tuple[Field, ...]] = {}
    for nested in (outer for outer in fields if outer.fields):
        by_name[nested.element] = nested.fields
        by_name.update(_structures(nested.fields))
    return by_name


class Schemas:
    """All messages of a jar, by name, and the keys of the APIs."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages = {message.name: message for message in messages}
        self.keys = {
            name.removesuffix("Request"): message.api_key
            for name, message in self.messages.items()
            if name.endswith("Request") and message.api_key is not None
        }
        self.names = {key: name for name, key in self.keys.items()}

    @classmethod
    def from_jar(cls, jar: Path) -> Schemas:
        """Read those of kafka-clients-*.jar."""
        with zipfile.ZipFile(jar) as archive:
            names = [name for name in archive.namelist() if name.startswith(_FOLDER) and name.endswith(".json")]
            return cls(parse_message(archive.read(name).decode()) for name in names)

    def request(self, api: str) -> Message:
        return self.messages[api + "Request"]

    def response(self, api: str) -> Message:
        return self.messages[api + "Response"]
