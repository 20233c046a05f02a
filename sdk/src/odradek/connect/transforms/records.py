"""Transforms of whole records: routing, headers, keys, schema metadata, and dropping."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from odradek.connect.config import ConfigDef, Kind, java_regex, non_empty, one_of, regex
from odradek.connect.data.logical import moment_of
from odradek.connect.data.schema import Schema, struct
from odradek.connect.data.structs import Struct
from odradek.connect.data.values import parse_text
from odradek.connect.errors import ConfigError, DataError
from odradek.connect.plugin import Transformation
from odradek.connect.record import ConnectRecord, Header
from odradek.connect.transforms.base import NULLS, PartTransformation, basics, of_part
from odradek.connect.transforms.date_format import DateFormat
from odradek.connect.transforms.paths import SYNTAX, FieldPath

_log = logging.getLogger("odradek.connect.transforms")


class Filter(Transformation):
    """Drop every record; with a predicate, the records that match it."""

    def apply(self, record: ConnectRecord) -> None:
        return None


class RegexRouter(Transformation):
    """Change the topic by a regular expression."""

    config_def = (
        ConfigDef()
        .define("regex", Kind.STRING, documentation="Matches the whole topic.", importance="HIGH", allowed=regex())
        .define("replacement", Kind.STRING, documentation="The new topic; $1 is the first group.", importance="HIGH")
    )

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        self._regex = re.compile(java_regex(self.configs["regex"]))

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        topic = record.topic
        if self._regex.fullmatch(topic) is None:
            return record
        # Java replaces what it finds first, which may be less than the topic: orders of orders|orders-eu.
        match = self._regex.search(topic)
        assert match is not None
        new = _expanded(match, self.configs["replacement"])
        return record.replace(topic=topic[: match.start()] + new + topic[match.end() :])


def _expanded(match: re.Match[str], replacement: str) -> str:
    """Return Java's replacement text: $1, ${name}, and a backslash before a character that means itself."""

    def one(part: re.Match[str]) -> str:
        if part["char"]:
            return part["char"]
        if part["name"]:
            return _group(match, part["name"])
        digits = part["number"]
        while len(digits) > 1 and int(digits) > (match.re.groups or 0):
            digits = digits[:-1]  # $12 is group 1 and a 2, if there is no group 12
        return _group(match, int(digits)) + part["number"][len(digits) :]

    return re.sub(r"\\(?P<char>.)|\$\{(?P<name>\w+)\}|\$(?P<number>\d+)", one, replacement)


def _group(match: re.Match[str], name: str | int) -> str:
    try:
        return match[name] or ""
    except IndexError:
        raise DataError(f"RegexRouter: the regular expression has no group {name}") from None


class TimestampRouter(Transformation):
    """Change the topic by the record's timestamp."""

    config_def = (
        ConfigDef()
        .define(
            "topic.format", Kind.STRING, "${topic}-${timestamp}", "The new topic, with ${topic} and ${timestamp}.",
            importance="HIGH",
        )
        .define("timestamp.format", Kind.STRING, "yyyyMMdd", "Java's SimpleDateFormat, in UTC.", importance="HIGH")
    )  # fmt: skip

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        self._format = DateFormat(self.configs["timestamp.format"])

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        if record.timestamp_ms is None:
            raise DataError(f"TimestampRouter: a record of {record.topic!r} has no timestamp")
        topic = self.configs["topic.format"].replace("${topic}", record.topic)
        return record.replace(topic=topic.replace("${timestamp}", self._format.format(moment_of(record.timestamp_ms))))


class ValueToKey(PartTransformation):
    """Make a key from fields of the value."""

    config_def = (
        ConfigDef().define(
            "fields", Kind.LIST, documentation="Names of the fields.", importance="HIGH", allowed=non_empty()
        )
        + NULLS
    )

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        fields = self.configs["fields"]
        if record.value_schema is None:
            values = self.mapping(record.value)
            return record.replace(key_schema=None, key={name: values.get(name) for name in fields})
        value = self.struct(record.value)
        schema = self.schema_once(value.schema, self._key_schema)
        key = Struct(schema, {name: self.value_of(value, name) for name in fields})
        return record.replace(key_schema=schema, key=key)

    def _key_schema(self, schema: Schema) -> Schema:
        key_fields = {name: schema.field(name) for name in self.configs["fields"]}
        missing = [name for name, field in key_fields.items() if field is None]
        if missing:
            raise DataError(f"ValueToKey: the value has no field {missing[0]!r}")
        return struct({name: field.schema for name, field in key_fields.items() if field is not None})


class SetSchemaMetadata(PartTransformation):
    """Set name and version of the schema."""

    config_def = (
        ConfigDef()
        .define("schema.name", Kind.STRING, None, "The name.", importance="HIGH")
        .define("schema.version", Kind.INT, None, "The version.", importance="HIGH")
        + NULLS
    )

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        if self.configs["schema.name"] is None and self.configs["schema.version"] is None:
            raise ConfigError("SetSchemaMetadata needs schema.name, schema.version or both")

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.read(record)
        if schema is None:
            if value is None:
                return record
            raise DataError("SetSchemaMetadata needs a value with a schema")
        name, version = self.configs["schema.name"], self.configs["schema.version"]
        updated = replace(schema, name=name or schema.name, version=schema.version if version is None else version)
        if isinstance(value, Struct):
            made = Struct(updated)
            for field in value:
                made[field] = self.value_of(value, field)
            value = made
        return self.written(record, updated, value)


class HeaderFrom(PartTransformation):
    """Move or copy fields to headers."""

    config_def = (
        ConfigDef()
        .define("fields", Kind.LIST, documentation="Names of the fields.", importance="HIGH", allowed=non_empty())
        .define(
            "headers", Kind.LIST, documentation="Names of the headers, in the same order.", importance="HIGH",
            allowed=non_empty(),
        )
        .define(
            "operation", Kind.STRING, documentation="move or copy.", importance="HIGH", allowed=one_of("move", "copy")
        )
        + NULLS
    )  # fmt: skip

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        if len(self.configs["fields"]) != len(self.configs["headers"]):
            raise ConfigError("HeaderFrom: fields and headers must have the same number of names")
        self._pairs = list(zip(self.configs["fields"], self.configs["headers"], strict=True))
        self._moves = self.configs["operation"] == "move"

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.read(record)
        if schema is None:
            values = self.mapping(value)
            added = [Header(header, values.get(name)) for name, header in self._pairs]
            kept = {
                n: field_value for n, field_value in values.items() if not (self._moves and n in self.configs["fields"])
            }
            return self.written(record, None, kept, (*record.headers, *added))
        struct_value = self.struct(value)
        added = []
        for name, header in self._pairs:
            of_field = schema.field(name)
            if of_field is None:
                raise DataError(f"HeaderFrom: there is no field {name!r}")
            added.append(Header(header, self.value_of(struct_value, name), of_field.schema))
        headers = (*record.headers, *added)
        if not self._moves:
            return self.written(record, schema, value, headers)
        updated = self.schema_once(schema, self._without)
        made = Struct(updated, {field.name: self.value_of(struct_value, field.name) for field in updated.fields})
        return self.written(record, updated, made, headers)

    def _without(self, schema: Schema) -> Schema:
        kept = [(field.name, field.schema) for field in schema.fields if field.name not in self.configs["fields"]]
        return basics(schema).with_fields(kept)


class InsertHeader(Transformation):
    """Add a header with a constant."""

    config_def = (
        ConfigDef()
        .define("header", Kind.STRING, documentation="Name of the header.", importance="HIGH")
        .define("value.literal", Kind.STRING, documentation="Its value; numbers and dates are recognized.",
                importance="HIGH")
    )  # fmt: skip

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = parse_text(self.configs["value.literal"])
        return record.replace(headers=(*record.headers, Header(self.configs["header"], value, schema)))


class DropHeaders(Transformation):
    """Remove headers by name."""

    config_def = ConfigDef().define(
        "headers", Kind.LIST, documentation="Names of the headers.", importance="HIGH", allowed=non_empty()
    )

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        return record.replace(headers=tuple(h for h in record.headers if h.key not in self.configs["headers"]))


# --- Confluent's -----------------------------------------------------------------------------------------------------


class ExtractTopic(PartTransformation):
    """Take the topic from the key or value, or from a field of it."""

    config_def = (
        ConfigDef()
        .define("field", Kind.STRING, "", "Name of the field; empty for the whole key or value.")
        .define(
            "skip.missing.or.null", Kind.BOOLEAN, False,
            "Whether the topic stays if the field is missing, null or empty; otherwise the record is refused.",
        )
        + SYNTAX
    )  # fmt: skip

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        name = self.configs["field"]
        self._path = FieldPath(name, self.configs["field.syntax.version"]) if name else None

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.read(record)
        if self._path is not None and value is not None:
            if schema is None:
                value = self._path.value_in_map(self.mapping(value))
            else:
                value = self._path.value_in_struct(self.struct(value), with_default=True)
        if isinstance(value, str) and value:
            return record.replace(topic=value)
        if value in (None, "") and self.configs["skip.missing.or.null"]:
            return record
        raise DataError(f"ExtractTopic: the topic must be a text, not {value!r:.80}")


class ExtractTopicHeader(Transformation):
    """Take the topic from a header."""

    config_def = (
        ConfigDef()
        .define("field", Kind.STRING, documentation="Name of the header.", importance="HIGH")
        .define("skip.missing.or.null", Kind.BOOLEAN, False, "Whether the topic stays if there is no such header.")
    )

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        value = next((header.value for header in reversed(record.headers) if header.key == self.configs["field"]), None)
        if isinstance(value, str) and value:
            return record.replace(topic=value)
        if value in (None, "") and self.configs["skip.missing.or.null"]:
            return record
        raise DataError(f"ExtractTopic: the topic must be a text, not {value!r:.80}")


class TombstoneHandler(Transformation):
    """Drop, log or refuse records without a value."""

    config_def = ConfigDef().define(
        "behavior", Kind.STRING, "drop_silent", "What happens to a tombstone.", importance="HIGH",
        allowed=one_of("drop_silent", "drop_warn", "warn", "fail", "ignore"),
    )  # fmt: skip

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        behavior = self.configs["behavior"]
        if record.value is not None or behavior == "ignore":
            return record
        if behavior == "fail":
            raise DataError(f"a record of {record.topic!r} has no value, which TombstoneHandler refuses")
        if behavior != "drop_silent":
            _log.warning("a record of %r has no value", record.topic)
        return record if behavior == "warn" else None


class Drop(PartTransformation):
    """Set the key or value to null."""

    config_def = ConfigDef().define(
        "schema.behavior", Kind.STRING, "nullify",
        "nullify removes the schema, retain keeps an optional one, validate refuses one that is required, "
        "force_optional makes it optional.",
        allowed=one_of("nullify", "retain", "validate", "force_optional"),
    )  # fmt: skip

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, _ = self.read(record)
        behavior = self.configs["schema.behavior"]
        if behavior == "nullify" or schema is None:
            return self.written(record, None, None)
        if behavior == "validate" and not schema.optional:
            raise DataError(f"Drop: the schema of the {self.part} is required, and the {self.part} is to be null")
        return self.written(record, schema.as_optional() if behavior == "force_optional" else schema, None)


SetSchemaMetadataKey, SetSchemaMetadataValue = of_part(SetSchemaMetadata, "key"), of_part(SetSchemaMetadata, "value")
HeaderFromKey, HeaderFromValue = of_part(HeaderFrom, "key"), of_part(HeaderFrom, "value")
ExtractTopicKey, ExtractTopicValue = of_part(ExtractTopic, "key"), of_part(ExtractTopic, "value")
DropKey, DropValue = of_part(Drop, "key"), of_part(Drop, "value")
