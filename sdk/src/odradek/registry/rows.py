"""The registry's items in the catalog table (docs/formats/registry_items.md). Pure.

    Key                                  Value
    registry / counter                   next: the next free id
    registry / config                    v, rev, level, mode, normalize (each may be absent): the registry's own
    registry-configs / <subject>         the same, of a subject
    registry-subjects / <subject>        v, rev: goes up with every write, versions: a list in order, each
                                         {n: version, id, del: it is soft-deleted, by: ids of schemas that refer to it}
    registry-schemas / <id, 10 digits>   v, t: language, s: text, refs: [{n: name, s: subject, v: version}], guid,
                                         in: its subjects, past ones too (the first hundred), more: there are others
    registry-guids / <guid, hex>         id

Rows are never deleted: a subject without versions has an empty list, and a schema is kept, since records in the log may
refer to its id for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast
from uuid import UUID

from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import FormatError
from odradek.format.item_keys import (
    REGISTRY_CONFIG_SK,
    REGISTRY_CONFIGS_PK,
    REGISTRY_COUNTER_SK,
    REGISTRY_GUIDS_PK,
    REGISTRY_PK,
    REGISTRY_SCHEMAS_PK,
    REGISTRY_SUBJECTS_PK,
)
from odradek.ports.table import Item, Key, Value
from odradek.registry.compatibility import Level
from odradek.registry.schemas import KINDS, Reference, Schema

VERSION = 1
SUBJECTS_NAMED_MAX = 100

COUNTER = Key(REGISTRY_PK, REGISTRY_COUNTER_SK)


def config_key(subject: str | None) -> Key:
    return Key(REGISTRY_PK, REGISTRY_CONFIG_SK) if subject is None else Key(REGISTRY_CONFIGS_PK, subject)


def subject_key(subject: str) -> Key:
    return Key(REGISTRY_SUBJECTS_PK, subject)


def schema_key(schema_id: int) -> Key:
    return Key(REGISTRY_SCHEMAS_PK, f"{schema_id:010d}")


def guid_key(guid: UUID) -> Key:
    return Key(REGISTRY_GUIDS_PK, guid.hex)


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    """A version of a subject."""

    version: int
    schema_id: int
    is_deleted: bool = False
    referrers: tuple[int, ...] = ()  # ids of schemas that refer to it


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject's row; revision 0 means that the row does not exist."""

    name: str
    rev: int = 0
    versions: tuple[SubjectVersion, ...] = ()

    @property
    def live(self) -> tuple[SubjectVersion, ...]:
        """The versions that are not soft-deleted."""
        return tuple(version for version in self.versions if not version.is_deleted)

    def find(self, version: int) -> SubjectVersion | None:
        return next((subject_version for subject_version in self.versions if subject_version.version == version), None)

    def with_version(self, changed: SubjectVersion) -> Subject:
        """Return the row with a version added, or replaced if its number exists."""
        others = [version for version in self.versions if version.version != changed.version]
        return replace(self, versions=tuple(sorted([*others, changed], key=lambda version: version.version)))


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A schema's row."""

    schema_id: int
    schema: Schema
    guid: UUID
    subjects: tuple[str, ...]  # present and past ones; not all of them if `has_more`
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of a subject or of the registry; None for what was never set."""

    level: Level | None = None
    mode: str | None = None
    normalize: bool | None = None
    rev: int = 0  # 0: the row does not exist


def encode_subject(subject: Subject) -> Item:
    """Encode the row with its next revision."""
    versions: list[Value] = []
    for version in subject.versions:
        entry: dict[str, Value] = {"n": version.version, "id": version.schema_id}
        if version.is_deleted:
            entry["del"] = True
        if version.referrers:
            entry["by"] = list(version.referrers)
        versions.append(entry)
    return {"v": VERSION, "rev": subject.rev + 1, "versions": versions}


def decode_subject(name: str, item: Item | None) -> Subject:
    if item is None:
        return Subject(name)
    check_version(item, VERSION, f"subject {name}")
    versions = []
    for entry in attribute(item, "versions", list):
        if not isinstance(entry, dict):
            raise FormatError(f"subject {name}: a version must be a map")
        referrers = tuple(cast("list[int]", entry.get("by", [])))
        is_deleted = entry.get("del") is True
        versions.append(SubjectVersion(attribute(entry, "n", int), attribute(entry, "id", int), is_deleted, referrers))
    return Subject(name, attribute(item, "rev", int), tuple(versions))


def encode_schema(stored: StoredSchema) -> Item:
    item: Item = {
        "v": VERSION,
        "t": stored.schema.kind,
        "s": stored.schema.text,
        "refs": [
            {"n": reference.name, "s": reference.subject, "v": reference.version}
            for reference in stored.schema.references
        ],
        "guid": stored.guid.bytes,
        "in": list(stored.subjects),
    }
    return {**item, "more": True} if stored.has_more else item


def decode_schema(schema_id: int, item: Item) -> StoredSchema:
    check_version(item, VERSION, f"schema {schema_id}")
    schema_type = attribute(item, "t", str)
    if schema_type not in KINDS:
        raise FormatError(f"schema {schema_id}: unknown schema type {schema_type}")
    references = tuple(
        Reference(attribute(reference, "n", str), attribute(reference, "s", str), attribute(reference, "v", int))
        for reference in cast("list[dict[str, object]]", attribute(item, "refs", list))
    )
    schema = Schema(schema_type, attribute(item, "s", str), references)
    subjects = tuple(cast("list[str]", attribute(item, "in", list)))
    guid = UUID(bytes=attribute(item, "guid", bytes))
    return StoredSchema(schema_id, schema, guid, subjects, item.get("more") is True)


def encode_config(config: Config) -> Item:
    item: Item = {"v": VERSION, "rev": config.rev + 1}
    if config.level is not None:
        item["level"] = config.level.value
    if config.mode is not None:
        item["mode"] = config.mode
    if config.normalize is not None:
        item["normalize"] = config.normalize
    return item


def decode_config(item: Item | None) -> Config:
    if item is None:
        return Config()
    check_version(item, VERSION, "the registry's configuration")
    level = item.get("level")
    if level is not None and level not in set(Level):
        raise FormatError(f"the registry's configuration: invalid compatibility level {level!r}")
    mode, normalize = item.get("mode"), item.get("normalize")
    return Config(
        None if level is None else Level(str(level)),
        str(mode) if mode is not None else None,
        normalize if isinstance(normalize, bool) else None,
        attribute(item, "rev", int),
    )
