"""Cast: fields or the whole key or value to another type, with Java's rules for numbers that do not fit."""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
import struct as structs
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from odradek.connect.config import Allowed, ConfigDef, Kind
from odradek.connect.data import logical
from odradek.connect.data.schema import INTEGER_BITS, Schema, Type
from odradek.connect.data.structs import Struct
from odradek.connect.data.values import float32_of, number_text, short_float32, time_text
from odradek.connect.errors import ConfigError, DataError
from odradek.connect.record import ConnectRecord
from odradek.connect.transforms.base import NULLS, PartTransformation, basics, of_part, retyped

_TARGETS = {
    schema_type.name.lower(): schema_type
    for schema_type in Type
    if schema_type.is_primitive and schema_type is not Type.BYTES
}
_TEMPORAL = (logical.DATE_NAME, logical.TIME_NAME, logical.TIMESTAMP_NAME)
_FLOAT = re.compile(r"\s*[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[fFdD]?\s*")


def _spec(pairs: list[str]) -> dict[str, Type]:
    """Return target types by field; "" is the whole value. Raises ConfigError."""
    target_types: dict[str, Type] = {}
    for pair in pairs:
        name, colon, target = pair.partition(":")
        if not colon:
            name, target = "", pair
        target_type = _TARGETS.get(target.strip().lower())
        if target_type is None:
            raise ConfigError(f"spec: {target.strip()!r} is not a type to cast to: {', '.join(_TARGETS)}")
        target_types[name.strip()] = target_type
    if not target_types or ("" in target_types and len(target_types) > 1):
        raise ConfigError("spec: give fields with their types, name:type, or one type for the whole value")
    return target_types


def _refused(pairs: list[str]) -> str | None:
    try:
        _spec(pairs)
    except ConfigError as error:
        return str(error)
    return None


class Cast(PartTransformation):
    """Cast fields, or the whole key or value, to another type."""

    config_def = (
        ConfigDef().define(
            "spec",
            Kind.LIST,
            documentation="Fields and types as name:type, or one type for the whole value. Types: "
            + ", ".join(_TARGETS)
            + ".",
            importance="HIGH",
            allowed=Allowed("name:type pairs", _refused),
        )
        + NULLS
    )

    def configure(self, configs: Mapping[str, Any]) -> None:
        super().configure(configs)
        self._casts = _spec(self.configs["spec"])
        self._whole = self._casts.get("")

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.read(record)
        if value is None:
            return record
        if schema is None:
            if self._whole is not None:
                return self.written(record, None, cast(None, value, self._whole))
            values = self.mapping(value)
            values |= {name: cast(None, values.get(name), target_type) for name, target_type in self._casts.items()}
            return self.written(record, None, values)
        updated = self.schema_once(schema, self._updated)
        if self._whole is not None:
            return self.written(record, updated, cast(schema, value, self._whole))
        return self.written(record, updated, self._struct(self.struct(value), updated))

    def _struct(self, value: Struct, schema: Schema) -> Struct:
        made = Struct(schema)
        for field in value.schema.fields:
            field_value, target_type = self.value_of(value, field.name), self._casts.get(field.name)
            made[field.name] = field_value if target_type is None else cast(field.schema, field_value, target_type)
        return made

    def _updated(self, schema: Schema) -> Schema:
        if self._whole is not None:
            default = cast(schema, schema.default, self._whole)
            return replace(retyped(schema, self._whole), optional=schema.optional, default=default)
        fields = []
        for field in schema.fields:
            target_type, of_field = self._casts.get(field.name), field.schema
            if target_type is not None:
                of_field = Schema(target_type, of_field.optional, default=cast(of_field, of_field.default, target_type))
            fields.append((field.name, of_field))
        made = replace(basics(schema).with_fields(fields), optional=schema.optional)
        return made if schema.default is None else replace(made, default=self._struct(schema.default, made))


def cast(schema: Schema | None, value: Any, target_type: Type) -> Any:
    """Return a value in another type. Raises DataError."""
    if value is None:
        return None
    if schema is not None and not schema.type.is_primitive:
        raise DataError(f"a {schema.type.value} cannot be cast")
    if target_type is Type.STRING:
        return _text(schema, value)
    if schema is not None and schema.name in _TEMPORAL:
        value = logical.encode(schema, value)
    try:
        if target_type is Type.BOOLEAN:
            return _boolean(value)
        return _whole(target_type, value) if target_type in INTEGER_BITS else _float(target_type, value)
    except (ValueError, TypeError):
        raise DataError(f"{value!r:.80} cannot be cast to {target_type.name.lower()}") from None


def _text(schema: Schema | None, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and schema is not None and schema.type is Type.FLOAT32:
        return number_text(short_float32(value))
    if isinstance(value, int | float | Decimal):
        return number_text(value)
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, dt.date | dt.time):
        return time_text(value)
    raise DataError(f"a {type(value).__name__} cannot be cast to string")


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.lower() == "true"
    return _truncated(value) != 0


def _truncated(value: Any) -> int:
    """Return a number without its fraction; floating point numbers are limited to 64 bits, as in Java."""
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        return int(max(min(value, float(2**63)), float(-(2**63)))) if abs(value) < 2**63 else _limit(value)
    if isinstance(value, int | Decimal):
        return int(value)
    raise TypeError


def _limit(value: float) -> int:
    return 2**63 - 1 if value > 0 else -(2**63)


def _whole(target_type: Type, value: Any) -> int:
    bits = INTEGER_BITS[target_type]
    if isinstance(value, str):
        number = int(value) if re.fullmatch(r"[+-]?\d+", value) else _no_number()
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError
        return number
    number = _truncated(value)
    if isinstance(value, float) and bits < 64:  # by way of 32 bits
        number = max(min(number, 2**31 - 1), -(2**31))
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _no_number() -> int:
    raise ValueError


def _float(target_type: Type, value: Any) -> float:
    if isinstance(value, str):
        if not _FLOAT.fullmatch(value):
            raise ValueError
        text = value.strip()
        number: int | float | Decimal = Decimal(text if "Inf" in text else text.rstrip("fFdD"))
    elif isinstance(value, int | float | Decimal):
        number = value
    else:
        raise TypeError
    if target_type is Type.FLOAT64:
        return float(number)
    try:
        if isinstance(number, float):
            return float(structs.unpack(">f", structs.pack(">f", number))[0])
        return float32_of(Decimal(number))
    except OverflowError:
        return math.copysign(math.inf, number)


CastKey, CastValue = of_part(Cast, "key"), of_part(Cast, "value")
