"""Subjects and versions of the schema registry, over Confluent's REST API."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from odradek.client.serializers.registry import HttpRegistry, Schema, SchemaReference
from odradek.errors import ErrorCode, KafkaError

KINDS = ("AVRO", "JSON", "PROTOBUF")
LEVELS = (
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
    "NONE",
)


@dataclass(frozen=True, slots=True)
class SubjectRow:
    """A subject with its latest version."""

    subject: str
    version: int
    schema_id: int
    kind: str  # AVRO | JSON | PROTOBUF
    versions: int  # how many there are


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of a subject."""

    subject: str
    version: int
    schema_id: int
    kind: str
    text: str  # as registered
    references: tuple[SchemaReference, ...]

    @property
    def pretty(self) -> str:
        """The text for people: JSON is indented."""
        return pretty(self.text)


@dataclass(frozen=True, slots=True)
class SubjectDetail:
    """A subject with all its versions, newest first."""

    subject: str
    level: str  # of compatibility
    level_is_default: bool
    versions: tuple[SchemaVersion, ...]


@dataclass(frozen=True, slots=True)
class Compatibility:
    """The outcome of a check: why the schema is refused, if it is."""

    is_compatible: bool
    messages: tuple[str, ...]


class RegistryAdmin(HttpRegistry):
    """The registry, with the calls of an administrator. Methods block, and raise KafkaError."""

    def at(self, subject: str, version: int | None, *, serialized: bool = False) -> tuple[int, Schema]:
        """Implement Registry.at. The latest version is asked for each time: a long-lived process sees new versions."""
        if version is None:
            self._versions.pop((subject, None, serialized), None)
        return super().at(subject, version, serialized=serialized)

    def subjects(self) -> list[SubjectRow]:
        """Return all subjects that the caller may describe, sorted by name."""
        latest: dict[str, dict[str, Any]] = {}
        counts: dict[str, int] = {}
        for each in self._list("/schemas"):
            name = str(each["subject"])
            counts[name] = counts.get(name, 0) + 1
            if name not in latest or int(each["version"]) > int(latest[name]["version"]):
                latest[name] = each
        return [
            SubjectRow(name, int(each["version"]), int(each["id"]), _kind(each), counts[name])
            for name, each in sorted(latest.items())
        ]

    def subject(self, name: str) -> SubjectDetail:
        """Return a subject with its versions. Raises KafkaError(INVALID_RECORD) if it does not exist."""
        path = f"/subjects/{quote(name, safe='')}/versions"
        found = [self._call("GET", f"{path}/{number}", None) for number in reversed(self._list(path))]
        level, is_default = self.level(name)
        return SubjectDetail(name, level, is_default, tuple(map(_version, found)))

    def level(self, subject: str) -> tuple[str, bool]:
        """Return the compatibility level of a subject, and True if it is the registry's default."""
        try:
            found = self._call("GET", f"/config/{quote(subject, safe='')}", None)
            return str(found["compatibilityLevel"]), False
        except KafkaError as error:
            if error.code is not ErrorCode.INVALID_RECORD:
                raise
        return str(self._call("GET", "/config", None)["compatibilityLevel"]), True

    def set_level(self, subject: str, level: str) -> None:
        """Set the compatibility level of a subject; "" resets it to the registry's default."""
        path = f"/config/{quote(subject, safe='')}"
        if level:
            self._call("PUT", path, {"compatibility": level})
        else:
            self._call("DELETE", path, None)

    def check(self, subject: str, schema: Schema) -> Compatibility:
        """Check a schema against the versions that the subject's level compares it with."""
        body = schema_body(schema)
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions?verbose=true"
        found = self._call("POST", path, body)
        return Compatibility(bool(found["is_compatible"]), tuple(map(str, found.get("messages") or ())))

    def add(self, subject: str, schema: Schema) -> int:
        """Register a schema as a new version and return its id. Raises KafkaError(INVALID_RECORD) if it is refused."""
        return int(self._call("POST", f"/subjects/{quote(subject, safe='')}/versions", schema_body(schema))["id"])

    def delete_subject(self, subject: str) -> None:
        """Delete a subject. Schemas stay readable by their ids, as in Confluent's registry."""
        self._list(f"/subjects/{quote(subject, safe='')}", "DELETE")

    def delete_version(self, subject: str, version: int) -> None:
        """Delete a version of a subject. Raises KafkaError(INVALID_RECORD) if another schema refers to it."""
        self._call("DELETE", f"/subjects/{quote(subject, safe='')}/versions/{version}", None)

    def referenced_by(self, subject: str, version: int) -> list[int]:
        """Return the ids of the schemas that refer to a version."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}/referencedby"
        return [int(each) for each in self._list(path)]

    def _list(self, path: str, method: str = "GET") -> list[Any]:
        found: Any = self._call(method, path, None)
        return list(found)


def schema_body(schema: Schema) -> dict[str, Any]:
    """Return the body of a request with a schema. Raises KafkaError(INVALID_CONFIG) for an unknown kind."""
    if schema.kind not in KINDS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown kind of schema {schema.kind!r}: use {', '.join(KINDS)}")
    if not schema.text.strip():
        raise KafkaError(ErrorCode.INVALID_CONFIG, "the schema is empty")
    references = [{"name": each.name, "subject": each.subject, "version": each.version} for each in schema.references]
    return {"schema": schema.text, "schemaType": schema.kind, "references": references}


def parse_references(text: str) -> tuple[SchemaReference, ...]:
    """Parse lines of `name subject version`. Raises KafkaError(INVALID_CONFIG)."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        parts = line.split()
        if len(parts) != 3 or not parts[2].isdigit():
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"invalid reference {line!r}: use name subject version")
        found.append(SchemaReference(parts[0], parts[1], int(parts[2])))
    return tuple(found)


def pretty(text: str) -> str:
    """Return JSON indented, and other text as it is."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a comparison of two texts."""

    sign: str  # "+" added, "-" removed, " " in both, "@" a gap
    text: str


def difference(old: str, new: str) -> list[DiffLine]:
    """Return the lines of two texts with what was added and removed, whole; empty if they are equal."""
    if old == new:
        return []
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=10_000)
    return [DiffLine(line[:1] or " ", line[1:]) for line in list(lines)[3:]]


def _version(answer: dict[str, Any]) -> SchemaVersion:
    references = tuple(
        SchemaReference(str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in answer.get("references") or ()
    )
    return SchemaVersion(
        str(answer["subject"]),
        int(answer["version"]),
        int(answer["id"]),
        _kind(answer),
        str(answer["schema"]),
        references,
    )


def _kind(answer: dict[str, Any]) -> str:
    return str(answer.get("schemaType") or "AVRO")
