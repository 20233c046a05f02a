"""Debezium's ExtractNewRecordState: the row itself in place of the envelope of a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from odradek.connect.config import ConfigDef, ConfigValue, Kind, one_of
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, struct
from odradek.connect.data.structs import Struct
from odradek.connect.errors import ConfigError, DataError
from odradek.connect.plugin import Configs, Transformation
from odradek.connect.record import ConnectRecord, Header

_DELETED = "__deleted"
_OF_ENVELOPE = ("op", "ts_ms", "ts_us", "ts_ns", "before", "after", "source", "transaction")
_OF_OLD_NAMES = {  # (delete.handling.mode, drop.tombstones), which Debezium has had until 2.5
    ("drop", True): "drop",
    ("drop", False): "tombstones-only",
    ("rewrite", True): "rewrite",
    ("rewrite", False): "rewrite-with-tombstone",
    ("none", True): "tombstone",
    ("none", False): "both",
}


class _Added(NamedTuple):
    """A field of the envelope that is added, by its path, under a name."""

    path: tuple[str, ...]
    name: str


def _added(texts: Sequence[str], prefix: str) -> list[_Added]:
    additions = []
    for text in texts:
        block_and_field, _, name = text.strip().partition(":")
        block, _, field = block_and_field.rpartition(".")
        if not field:
            raise ConfigError(f"a field to add must be named as field or block.field, not {text!r}")
        implied = block or ("" if field in _OF_ENVELOPE else "source")
        path = (implied, field) if implied else (field,)
        additions.append(_Added(path, prefix + (name or (f"{block}_{field}" if block else field))))
    return additions


class ExtractNewRecordState(Transformation):
    """Put the row after a change in place of Debezium's envelope."""

    config_def = (
        ConfigDef()
        .define(
            "delete.tombstone.handling.mode", Kind.STRING, "tombstone",
            "Deletes: drop: nothing is left of them. tombstone, delete-to-tombstone: one tombstone. rewrite: the row "
            "before, with __deleted=true. rewrite-with-tombstone: both.",
            importance="HIGH",
            allowed=one_of("drop", "tombstone", "delete-to-tombstone", "rewrite", "rewrite-with-tombstone"),
        )
        .define("delete.handling.mode", Kind.STRING, None, "Older name: drop, rewrite or none, with drop.tombstones.",
                allowed=one_of("drop", "rewrite", "none"))
        .define("drop.tombstones", Kind.BOOLEAN, None, "Older name: whether tombstones are dropped; true by default.")
        .define("add.fields", Kind.LIST, [], "Fields of the envelope to add to the row: `op`, `source.ts_ms`, "
                "`table` (of source), or `field:name`.")
        .define("add.fields.prefix", Kind.STRING, "__", "Before the names of those.")
        .define("add.headers", Kind.LIST, [], "Fields of the envelope to add as headers, likewise.")
        .define("add.headers.prefix", Kind.STRING, "__", "Before the names of those.")
        .define("route.by.field", Kind.STRING, "", "A field of the row whose value is the new topic.")
        .define("drop.fields.header.name", Kind.STRING, None, "A header with a list of fields to leave out.")
        .define("drop.fields.from.key", Kind.BOOLEAN, False, "Whether they are left out of the key, too.")
        .define("drop.fields.keep.schema.compatible", Kind.BOOLEAN, True, "Whether required fields are kept all the "
                "same.")
        .define("replace.null.with.default", Kind.BOOLEAN, True, "Whether a null of a field that has a default is "
                "replaced by the default.")
    )  # fmt: skip

    @classmethod
    def validate(cls, configs: Configs) -> dict[str, ConfigValue]:
        validated = super().validate(configs)
        for name in ("add.fields", "add.headers"):
            try:
                _added(validated[name].value or [], "")
            except ConfigError as error:
                validated[name].errors.append(str(error))
        return validated

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        configs_read = self.configs
        self._mode: str = configs_read["delete.tombstone.handling.mode"]
        if configs_read["delete.handling.mode"] is not None or configs_read["drop.tombstones"] is not None:
            old = configs_read["delete.handling.mode"] or "drop", configs_read["drop.tombstones"] is not False
            self._mode = _OF_OLD_NAMES[old]
        self._fields = _added(configs_read["add.fields"], configs_read["add.fields.prefix"])
        self._headers = _added(configs_read["add.headers"], configs_read["add.headers.prefix"])
        self._schemas: dict[tuple[Schema, Schema], Schema] = {}

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value is None:
            return record if self._mode in ("rewrite-with-tombstone", "tombstones-only", "both") else None
        if not _is_envelope(record):
            return record
        envelope = record.value
        if envelope["op"] == "t":
            return None
        added = [Header(header.name, *reversed(_found(record, header.path))) for header in self._headers]
        changed = record.replace(headers=(*record.headers, *added))
        if envelope["after"] is not None:
            return self._routed(self._unwrapped(changed, "after", deleted=False))
        if self._mode in ("drop", "tombstones-only"):
            return None
        if self._mode.startswith("rewrite"):
            if envelope["before"] is None:
                raise DataError("a delete without the row before it cannot be rewritten")
            return self._routed(self._unwrapped(changed, "before", deleted=True))
        return self._routed(changed.replace(value=None, value_schema=None), envelope["before"])

    def _routed(self, record: ConnectRecord, row: Any = None) -> ConnectRecord:
        field = self.configs["route.by.field"]
        if not field:
            return record
        row = record.value if row is None else row
        topic = row.get(field) if row is not None else None
        return record if topic is None else record.replace(topic=str(topic))

    # --- the row ----------------------------------------------------------------------------------------------------

    def _unwrapped(self, record: ConnectRecord, part: str, *, deleted: bool) -> ConnectRecord:
        row, dropped = record.value[part], self._dropped(record)
        marks = {_DELETED: "true" if deleted else "false"} if self._mode.startswith("rewrite") else {}
        if not isinstance(row, Struct):
            added = {field.name: _found(record, field.path)[1] for field in self._fields}
            row_values = {name: value for name, value in row.items() if name not in dropped}
            changed = record.replace(value={**row_values, **added, **marks}, value_schema=None)
            if isinstance(record.key, Mapping) and dropped and self.configs["drop.fields.from.key"]:
                changed = changed.replace(key={n: v for n, v in record.key.items() if n not in dropped})
            return changed
        leaving = self._leaving(row.schema, dropped)
        added_fields = [(field.name, *_found(record, field.path)) for field in self._fields]
        extra = [(name, (schema or schemas.OPTIONAL_STRING).as_optional()) for name, schema, _ in added_fields]
        extra += [(name, schemas.OPTIONAL_STRING) for name in marks]
        schema = self._schema(row.schema, extra, leaving)
        made = Struct(schema, {name: self._value(row, name) for name in row if name not in leaving})
        for name, _, value in added_fields:
            made[name] = value
        for name, text in marks.items():
            made[name] = text
        changed = record.replace(value=made, value_schema=schema)
        key = record.key
        if isinstance(key, Struct) and dropped and self.configs["drop.fields.from.key"]:
            leaving = self._leaving(key.schema, dropped)
            schema = self._schema(key.schema, [], leaving)
            kept = Struct(schema, {name: self._value(key, name) for name in key if name not in leaving})
            changed = changed.replace(key=kept, key_schema=schema)
        return changed

    def _value(self, row: Struct, name: str) -> Any:
        return row[name] if self.configs["replace.null.with.default"] else row.without_default(name)

    def _schema(self, schema: Schema, extra: list[tuple[str, Schema]], leaving: set[str]) -> Schema:
        """Return the schema of rows with fields added and left out; made once while nothing changes."""
        wanted = struct(extra, name=",".join(sorted(leaving)))
        made = self._schemas.get((schema, wanted))
        if made is None:
            if len(self._schemas) > 64:
                self._schemas.clear()
            kept = [(field.name, field.schema) for field in schema.fields if field.name not in leaving]
            made = schema.as_optional(False).with_fields([*kept, *extra])
            self._schemas[schema, wanted] = made
        return made

    def _dropped(self, record: ConnectRecord) -> set[str]:
        name = self.configs["drop.fields.header.name"]
        value = next((header.value for header in record.headers if name and header.key == name), None)
        return {str(name_dropped) for name_dropped in value} if isinstance(value, list | tuple) else set()

    def _leaving(self, schema: Schema, dropped: set[str]) -> set[str]:
        if not self.configs["drop.fields.keep.schema.compatible"]:
            return dropped & {field.name for field in schema.fields}
        return {field.name for field in schema.fields if field.name in dropped and field.schema.optional}


def _is_envelope(record: ConnectRecord) -> bool:
    value = record.value
    if isinstance(value, Struct):
        return (value.schema.name or "").endswith(".Envelope") and "op" in value and "after" in value
    return isinstance(value, Mapping) and {"op", "before", "after", "source"} <= value.keys()


def _found(record: ConnectRecord, path: tuple[str, ...]) -> tuple[Schema | None, Any]:
    """Return schema and value of a field of the envelope; None where there is none."""
    schema, value = record.value_schema, record.value
    for name in path:
        of_field = None if schema is None else schema.field(name)
        schema = None if of_field is None else of_field.schema
        value = value.get(name) if isinstance(value, Struct | Mapping) else None
    return schema, value
