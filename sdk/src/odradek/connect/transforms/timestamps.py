"""TimestampConverter: between text, Unix time, and Connect's Date, Time and Timestamp."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from odradek.connect.config import ConfigDef, Kind, one_of
from odradek.connect.data import schema as schemas
from odradek.connect.data.logical import DATE, EPOCH_DATE, TIME, TIMESTAMP, UTC, moment_of, ms_of
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.structs import Struct
from odradek.connect.errors import ConfigError, DataError
from odradek.connect.record import ConnectRecord
from odradek.connect.transforms.base import NULLS, PartTransformation, basics, of_part
from odradek.connect.transforms.date_format import DateFormat

_SCHEMAS = {"string": schemas.STRING, "unix": schemas.INT64, "Date": DATE, "Time": TIME, "Timestamp": TIMESTAMP}
_NS = {"nanoseconds": 1, "microseconds": 1_000, "milliseconds": 1_000_000, "seconds": 1_000_000_000}
_MS = _NS["milliseconds"]


def _divided(number: int, by: int) -> int:
    """Divide towards zero, as Java does."""
    return number // by if number >= 0 else -(-number // by)


class TimestampConverter(PartTransformation):
    """Convert a timestamp, or a field with one, to another representation."""

    config_def = (
        ConfigDef()
        .define("field", Kind.STRING, "", "Name of the field; empty for the whole key or value.", importance="HIGH")
        .define(
            "target.type", Kind.STRING, documentation="The wanted representation.", importance="HIGH",
            allowed=one_of(*_SCHEMAS),
        )
        .define("format", Kind.STRING, "", "Java's SimpleDateFormat of text, written and read; the zone is UTC.")
        .define(
            "unix.precision", Kind.STRING, "milliseconds", "Unit of Unix times, written and read.", importance="LOW",
            allowed=one_of(*_NS),
        )
        + NULLS
    )  # fmt: skip

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        self._target: str = self.configs["target.type"]
        pattern = self.configs["format"].strip()
        if self._target == "string" and not pattern:
            raise ConfigError("format is required with target.type=string")
        self._format = DateFormat(pattern) if pattern else None
        self._unit_ns = _NS[self.configs["unix.precision"]]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.read(record)
        name = self.configs["field"]
        if schema is None:
            if value is None or not name:
                return self.written(record, None, self._converted(value))
            values = self.mapping(value)
            return self.written(record, None, {**values, name: self._converted(values.get(name))})
        if not name:
            target = _SCHEMAS[self._target].as_optional(schema.optional)
            return self.written(record, target, self._converted(value, schema))
        updated = self.schema_once(schema, self._updated)
        return self.written(record, updated, None if value is None else self._struct(self.struct(value), updated))

    def _updated(self, schema: Schema) -> Schema:
        name, target = self.configs["field"], _SCHEMAS[self._target]
        fields = [
            (field.name, target.as_optional(field.schema.optional) if field.name == name else field.schema)
            for field in schema.fields
        ]
        made = replace(basics(schema).with_fields(fields), optional=schema.optional)
        return made if schema.default is None else replace(made, default=self._struct(schema.default, made))

    def _struct(self, value: Struct, schema: Schema) -> Struct:
        made = Struct(schema)
        for field in value.schema.fields:
            field_value = self.value_of(value, field.name)
            is_the_one = field.name == self.configs["field"]
            made[field.name] = self._converted(field_value, field.schema) if is_the_one else field_value
        return made

    def _converted(self, value: Any, schema: Schema | None = None) -> Any:
        is_temporal = schema is None or schema.name in (DATE.name, TIME.name, TIMESTAMP.name)
        if schema is not None and not is_temporal and schema.type not in (Type.STRING, Type.INT64):
            raise DataError(f"a {schema.type.value} is not a timestamp: string, int64, Date, Time or Timestamp")
        return None if value is None else self._to_target(self._moment(value))

    def _moment(self, value: Any) -> dt.datetime:
        if isinstance(value, str):
            if self._format is None:
                raise DataError("format is required for timestamps in text")
            return self._format.parse(value)
        if isinstance(value, dt.datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        if isinstance(value, dt.date):
            return dt.datetime(value.year, value.month, value.day, tzinfo=UTC)
        if isinstance(value, dt.time):
            return dt.datetime.combine(EPOCH_DATE, value, UTC)
        if isinstance(value, int) and not isinstance(value, bool):
            return moment_of(_divided(value * self._unit_ns, _MS))
        raise DataError(f"a {type(value).__name__} is not a timestamp: text, a whole number or a date is")

    def _to_target(self, moment: dt.datetime) -> Any:
        if self._target == "string":
            assert self._format is not None
            return self._format.format(moment)
        if self._target == "unix":
            return _divided(ms_of(moment) * _MS, self._unit_ns)
        if self._target == "Date":
            return moment.date()
        return moment.time() if self._target == "Time" else moment


TimestampConverterKey = of_part(TimestampConverter, "key")
TimestampConverterValue = of_part(TimestampConverter, "value")
