"""Transforms of fields: extract, hoist, insert, mask, replace, flatten."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from odradek.connect.config import Allowed, ConfigDef, Kind, non_empty
from odradek.connect.data import schema as schemas
from odradek.connect.data.logical import EPOCH, EPOCH_DATE, TIMESTAMP, moment_of
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.schema import struct as struct_schema
from odradek.connect.data.structs import Struct
from odradek.connect.errors import ConfigError, DataError
from odradek.connect.record import ConnectRecord, SinkRecord
from odradek.connect.transforms.base import NULLS, PartTransformation, basics, of_part
from odradek.connect.transforms.cast import cast
from odradek.connect.transforms.paths import SYNTAX, FieldPath


class ExtractField(PartTransformation):
    """Replace a struct or map by one of its fields."""

    config_def = (
        ConfigDef().define("field", Kind.STRING, documentation="Name of the field, or a path to it.") + SYNTAX + NULLS
    )

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        self._path = FieldPath(self.configs["field"], self.configs["field.syntax.version"])

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.read(record)
        if schema is None:
            return self.written(record, None, None if value is None else self._path.value_in_map(self.mapping(value)))
        of_field = self._path.schema_in(schema)
        if of_field is None:
            raise DataError(f"ExtractField: there is no field {self._path.text!r}")
        if value is not None:
            value = self._path.value_in_struct(self.struct(value), with_default=self._replaces_nulls)
        return self.written(record, of_field, value)


class HoistField(PartTransformation):
    """Wrap the key or value into a struct or map with one field."""

    config_def = ConfigDef().define("field", Kind.STRING, documentation="Name of the field.")

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.read(record)
        name = self.configs["field"]
        if schema is None:
            return self.written(record, None, {name: value})
        updated = self.schema_once(schema, lambda schema: struct_schema({name: schema}))
        return self.written(record, updated, Struct(updated, {name: value}))


class InsertField(PartTransformation):
    """Insert fields with the record's topic, partition, offset or timestamp, or with a constant."""

    config_def = (
        ConfigDef()
        .define("topic.field", Kind.STRING, None, "Name of the field for the topic; `!` at the end makes it required.")
        .define("partition.field", Kind.STRING, None, "Name of the field for the partition.")
        .define("offset.field", Kind.STRING, None, "Name of the field for the offset; only of sinks.")
        .define("timestamp.field", Kind.STRING, None, "Name of the field for the timestamp.")
        .define("static.field", Kind.STRING, None, "Name of the field for a constant.")
        .define("static.value", Kind.STRING, None, "The constant.")
        + NULLS
    )

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        kinds = {
            "topic": schemas.STRING,
            "partition": schemas.INT32,
            "offset": schemas.INT64,
            "timestamp": TIMESTAMP,
            "static": schemas.STRING,
        }
        self._inserted: dict[str, tuple[str, Schema]] = {}  # by attribute: the field's name and schema
        for attribute, schema in kinds.items():
            spec = self.configs[f"{attribute}.field"]
            if spec is not None:
                self._inserted[attribute] = spec.rstrip("?!"), schema.as_optional(not spec.endswith("!"))
        if not self._inserted:
            raise ConfigError("InsertField needs at least one of topic.field, partition.field, offset.field, "
                              "timestamp.field and static.field")  # fmt: skip
        if "static" in self._inserted and self.configs["static.value"] is None:
            raise ConfigError("static.value is required with static.field")

    def _attributes(self, record: ConnectRecord) -> dict[str, Any]:
        if "offset" in self._inserted and not isinstance(record, SinkRecord):
            raise DataError("InsertField: only records of sinks have an offset")
        return {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset if isinstance(record, SinkRecord) else None,
            "timestamp": record.timestamp_ms,
            "static": self.configs["static.value"],
        }

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.read(record)
        if value is None:
            return record
        attributes = self._attributes(record)
        inserted = [
            (name, attributes[attribute])
            for attribute, (name, _) in self._inserted.items()
            if attributes[attribute] is not None
        ]
        if schema is None:
            return self.written(record, None, {**self.mapping(value), **dict(inserted)})
        struct = self.struct(value)
        updated = self.schema_once(struct.schema, self._updated)
        made = Struct(updated, {name: self.value_of(struct, name) for name in struct})
        for name, attribute in inserted:
            field = updated.field(name)
            is_moment = field is not None and field.schema.name == TIMESTAMP.name
            made[name] = moment_of(attribute) if is_moment else attribute
        return self.written(record, updated, made)

    def _updated(self, schema: Schema) -> Schema:
        own = [(field.name, field.schema) for field in schema.fields]
        return basics(schema).with_fields([*own, *self._inserted.values()])


class MaskField(PartTransformation):
    """Replace fields by an empty value of their type, or by a given one."""

    config_def = (
        ConfigDef()
        .define("fields", Kind.LIST, documentation="Names of the fields.", importance="HIGH", allowed=non_empty())
        .define(
            "replacement",
            Kind.STRING,
            None,
            "A value for all of the fields, which have to be numbers or text. None: 0, false, empty text.",
            importance="LOW",
            allowed=non_empty(),
        )
        + NULLS
    )

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.read(record)
        fields = set(self.configs["fields"])
        if schema is None:
            values = self.mapping(value)
            return self.written(record, None, {**values, **{n: self._masked(None, values.get(n)) for n in fields}})
        struct = self.struct(value)
        made = Struct(struct.schema)
        for field in struct.schema.fields:
            field_value = self.value_of(struct, field.name)
            made[field.name] = self._masked(field.schema, field_value) if field.name in fields else field_value
        return self.written(record, schema, made)

    def _masked(self, schema: Schema | None, value: Any) -> Any:
        if value is None:
            return None
        replacement = self.configs["replacement"]
        if replacement is None:
            return _empty(schema, value)
        return _replaced(schema, value, replacement)


def _empty(schema: Schema | None, value: Any) -> Any:
    empties: tuple[tuple[Any, Any], ...] = (
        (bool, False),
        (int, 0),
        (float, 0.0),
        (Decimal, Decimal(0)),
        (str, ""),
        (dt.datetime, EPOCH),
        (dt.date, EPOCH_DATE),
        (dt.time, dt.time()),
        (list | tuple, []),
    )
    for python_type, empty in empties:
        if isinstance(value, python_type):
            return empty
    if isinstance(value, Mapping):
        return {}
    raise DataError(f"MaskField: a {type(value).__name__} cannot be masked")


def _replaced(schema: Schema | None, value: Any, replacement: str) -> Any:
    if isinstance(value, str):
        return replacement
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        try:
            number = Decimal(replacement)
        except InvalidOperation:
            raise DataError(f"MaskField: the replacement {replacement!r} is not a number") from None
        if isinstance(value, Decimal):
            return number
        number_type = Type.FLOAT64 if isinstance(value, float) else Type.INT64
        return cast(None, number, number_type if schema is None else schema.type)
    raise DataError(f"MaskField: a {type(value).__name__} cannot be replaced by a given value")


def _renames(pairs: list[str]) -> dict[str, str]:
    renames = {}
    for pair in pairs:
        parts = pair.split(":")
        if len(parts) != 2:
            raise ConfigError(f"renames: {pair!r} must be old:new")
        renames[parts[0]] = parts[1]
    return renames


def _refused(pairs: list[str]) -> str | None:
    try:
        _renames(pairs)
    except ConfigError as error:
        return str(error)
    return None


class ReplaceField(PartTransformation):
    """Filter or rename fields."""

    config_def = (
        ConfigDef()
        .define("exclude", Kind.LIST, [], "Fields to leave out; this goes before `include`.", also=("blacklist",))
        .define("include", Kind.LIST, [], "The only fields to keep.", also=("whitelist",))
        .define("renames", Kind.LIST, [], "New names, as old:new.", allowed=Allowed("old:new pairs", _refused))
        + NULLS
    )

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        self._renamed = _renames(self.configs["renames"])
        self._exclude, self._include = set(self.configs["exclude"]), set(self.configs["include"])

    def _is_kept(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.read(record)
        if value is None:
            return record
        if schema is None:
            kept = {
                self._renamed.get(n, n): field_value
                for n, field_value in self.mapping(value).items()
                if self._is_kept(n)
            }
            return self.written(record, None, kept)
        struct = self.struct(value)
        updated = self.schema_once(struct.schema, self._updated)
        made = Struct(updated)
        for name in struct:
            if self._is_kept(name):
                made[self._renamed.get(name, name)] = self.value_of(struct, name)
        return self.written(record, updated, made)

    def _updated(self, schema: Schema) -> Schema:
        return basics(schema).with_fields(
            (self._renamed.get(field.name, field.name), field.schema)
            for field in schema.fields
            if self._is_kept(field.name)
        )


class Flatten(PartTransformation):
    """Flatten nested structs or maps: the names of the levels are joined."""

    config_def = ConfigDef().define("delimiter", Kind.STRING, ".", "Between the names of two levels.")

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.read(record)
        if value is None:
            return record
        if schema is None:
            flat: dict[str, Any] = {}
            self._flatten_map(self.mapping(value), "", flat)
            return self.written(record, None, flat)
        if schema.type is not Type.STRUCT:
            raise DataError(f"Flatten needs a struct, not {schema.type.value}")
        updated = self.schema_once(schema, self._updated)
        made = Struct(updated)
        self._flatten_struct(self.struct(value), "", made)
        return self.written(record, updated, made)

    def _name_of(self, prefix: str, name: str) -> str:
        return f"{prefix}{self.configs['delimiter']}{name}" if prefix else name

    def _flatten_map(self, values: Mapping[str, Any], prefix: str, flat: dict[str, Any]) -> None:
        for name, value in values.items():
            if isinstance(value, Mapping):
                self._flatten_map(value, self._name_of(prefix, name), flat)
            else:
                flat[self._name_of(prefix, name)] = value

    def _flatten_struct(self, struct: Struct | None, prefix: str, made: Struct) -> None:
        if struct is None:
            return
        for field in struct.schema.fields:
            name = self._name_of(prefix, field.name)
            if field.schema.type is Type.STRUCT:
                self._flatten_struct(struct[field.name], name, made)
            else:
                made[name] = struct[field.name]

    def _updated(self, schema: Schema) -> Schema:
        fields: list[tuple[str, Schema]] = []
        self._collect(schema, "", fields.append, schema.optional, schema.default)
        return basics(schema).with_fields(fields)

    def _collect(
        self,
        schema: Schema,
        prefix: str,
        add: Callable[[tuple[str, Schema]], None],
        optional: bool,
        default: Struct | None,
    ) -> None:
        for field in schema.fields:
            name, is_optional = self._name_of(prefix, field.name), optional or field.schema.optional
            of_field = field.schema.default
            if of_field is None and default is not None:
                of_field = default[field.name]
            if field.schema.type is Type.MAP:
                raise DataError(f"Flatten cannot flatten the map {name!r} of a value with a schema")
            if field.schema.type is Type.STRUCT:
                self._collect(field.schema, name, add, is_optional, of_field)
            else:
                made = basics(field.schema).as_optional(is_optional)
                add((name, made if of_field is None else made.with_default(of_field)))


ExtractFieldKey, ExtractFieldValue = of_part(ExtractField, "key"), of_part(ExtractField, "value")
HoistFieldKey, HoistFieldValue = of_part(HoistField, "key"), of_part(HoistField, "value")
InsertFieldKey, InsertFieldValue = of_part(InsertField, "key"), of_part(InsertField, "value")
MaskFieldKey, MaskFieldValue = of_part(MaskField, "key"), of_part(MaskField, "value")
ReplaceFieldKey, ReplaceFieldValue = of_part(ReplaceField, "key"), of_part(ReplaceField, "value")
FlattenKey, FlattenValue = of_part(Flatten, "key"), of_part(Flatten, "value")
