"""A shape, read from its Avro schema: `arg.properties` beside a type say how its values are chosen.

    options     one of these, of any type: {"arg.properties": {"options": ["BUY", "SELL"]}}
    range       numbers: {"min": 1, "max": 10}, from min up to max
    iteration   numbers and texts that count: {"start": 0, "restart": 100, "step": 1}; by the number of the record
    regex       texts that match (chance.texts_like); `prefix` and `suffix` beside any of these
    length      of texts, bytes, arrays and maps: a number, or {"min": 1, "max": 5}
    odds        booleans: how likely true is
    keys        maps: how the keys are chosen, as of a text
    now         longs of the logical type timestamp-millis: the record's own time

They are those of Confluent's Avro random generator, but for `now`, for files of options, and for values that are
malformed on purpose.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from odradek.connect.connectors.datagen.chance import Chance, texts_like
from odradek.connect.converters.avro_data import connect_schema
from odradek.connect.data import logical
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.structs import Struct
from odradek.connect.errors import ConfigError, ConnectError
from odradek.model import decimals

Make = Callable[[Chance, int, str], Any]
"""Chance, the time in ms and a name for the choices -> a value of Connect."""

_KNOWN = {"options", "range", "iteration", "regex", "prefix", "suffix", "length", "odds", "keys", "now"}
_BOUNDS = {"int": (-(2**31), 2**31), "long": (-(2**63), 2**63)}
_NUMBERS = ("int", "long", "float", "double")
_LENGTH = (8, 17)  # of texts and bytes that say nothing of it
_ITEMS = (1, 6)
_LENGTH_MAX = 100_000
_DEPTH_MAX = 50
_UNITS = {"time-micros": 1_000, "timestamp-micros": 1_000}


class Shape:
    """A kind of records.

    Args:
        avro: its schema, a record, as `json.loads` gives it.
        key: the field that is the key; None: records have no key.

    Raises ConfigError: what the schema asks for cannot be made.
    """

    def __init__(self, avro: Any, key: str | None) -> None:
        try:
            self.schema = connect_schema(avro)
        except (ConnectError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"the schema is no Avro schema: {type(error).__name__}: {error}") from None
        if self.schema.type is not Type.STRUCT:
            raise ConfigError("the schema is to be that of a record")
        by_name = {field.name: field.schema for field in self.schema.fields}
        if key is not None and key not in by_name:
            raise ConfigError(f"schema.keyfield: the schema has no field {key!r}, but {', '.join(by_name)}")
        self.key = key
        self.key_schema = None if key is None else by_name[key]
        self._make = _make(avro, self.schema, str(avro.get("name")), {}, 0)

    @classmethod
    def of_text(cls, text: str, key: str | None) -> Shape:
        """Return the shape of a schema in JSON. Raises ConfigError."""
        try:
            return cls(json.loads(text), key)
        except ValueError as error:
            raise ConfigError(f"the schema is no JSON: {error}") from None

    def value(self, chance: Chance, now_ms: int) -> Any:
        """Return a record's value."""
        return self._make(chance, now_ms, "")


def _make(avro: Any, schema: Schema, path: str, named: dict[str, Any], depth: int) -> Make:
    """Return what makes the values of a type."""
    if depth > _DEPTH_MAX:
        raise ConfigError(f"{path}: the schema is nested too deeply")
    if isinstance(avro, str) and avro in named:
        avro = named[avro]
    if isinstance(avro, list):
        return _union(avro, schema, path, named, depth)
    declared = avro if isinstance(avro, Mapping) else {"type": avro}
    properties = declared.get("arg.properties", {})
    type_name = declared["type"]
    if isinstance(type_name, Mapping | list):
        return _make(type_name, schema, path, named, depth + 1)
    if "name" in declared:
        named[declared["name"]] = declared
    unknown = set(properties) - _KNOWN
    if unknown:
        raise ConfigError(f"{path}: arg.properties has {min(unknown)!r}: use {', '.join(sorted(_KNOWN))}")
    if "options" in properties:
        return _options(properties["options"], schema, path)
    if type_name == "record":
        fields = {field.name: field.schema for field in schema.fields}
        parts = [
            (field["name"], _make(field["type"], fields[field["name"]], f"{path}.{field['name']}", named, depth + 1))
            for field in declared["fields"]
        ]
        return lambda chance, now, name: Struct(
            schema, {field: part(chance, now, f"{name}.{field}") for field, part in parts}
        )
    if type_name in ("array", "map"):
        return _several(declared, properties, schema, path, named, depth)
    if type_name == "null":
        return lambda chance, now, name: None
    if type_name == "enum":
        symbols = list(declared["symbols"])
        return lambda chance, now, name: chance.of(symbols, name)
    if type_name in ("bytes", "fixed") and schema.name != logical.DECIMAL_NAME:
        length = _length(
            properties, path, (declared["size"], declared["size"] + 1) if type_name == "fixed" else _LENGTH
        )
        return lambda chance, now, name: bytes(
            chance.below(256, f"{name}*{at}") for at in range(_drawn(length, chance, name))
        )
    if type_name == "boolean":
        odds = _number(properties.get("odds", 0.5), f"{path}: odds")
        return lambda chance, now, name: chance.fraction(name) < odds
    if type_name == "string":
        return _texts(properties, path)
    return _numbers(type_name, properties, schema, path, _UNITS.get(declared.get("logicalType", ""), 1))


def _union(avro: list[Any], schema: Schema, path: str, named: dict[str, Any], depth: int) -> Make:
    branches = [branch for branch in avro if branch != "null"]
    if len(branches) != 1:
        raise ConfigError(f"{path}: a union of several types cannot be made: use one, and null")
    made = _make(branches[0], schema, path, named, depth + 1)
    if len(avro) == 1:
        return made
    return lambda chance, now, name: None if chance.below(2, f"{name}?") else made(chance, now, name)


def _options(options: Any, schema: Schema, path: str) -> Make:
    if not isinstance(options, list) or not options:
        raise ConfigError(f"{path}: options is to be a list with at least one value")
    values = [_value(schema, option, path) for option in options]
    return lambda chance, now, name: chance.of(values, name)


def _value(schema: Schema, option_value: Any, path: str) -> Any:
    """Return an option, as JSON has it, as a value of Connect."""
    if option_value is None and schema.optional:
        return None
    try:
        match schema.type:
            case Type.STRUCT:
                return Struct(schema, {f.name: _value(f.schema, option_value.get(f.name), path) for f in schema.fields})
            case Type.ARRAY:
                return [_value(schema.elements, element, path) for element in option_value]
            case Type.MAP:
                return {key: _value(schema.elements, member, path) for key, member in option_value.items()}
        if schema.name == logical.DECIMAL_NAME:
            return _decimal(schema, Decimal(str(option_value)))
        if schema.type in (Type.FLOAT32, Type.FLOAT64) and not isinstance(option_value, bool):
            option_value = float(option_value)
        if schema.type is Type.BYTES and isinstance(option_value, str):
            option_value = option_value.encode("latin-1")
        if logical.is_logical(schema):
            return logical.decode(schema, option_value)
        _PYTHON[schema.type](option_value)
    except (ArithmeticError, AttributeError, ConnectError, KeyError, TypeError, ValueError):
        raise ConfigError(f"{path}: the option {option_value!r} is no {schema.type.name.lower()}") from None
    return option_value


def _is(python_type: type) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if not isinstance(value, python_type) or (isinstance(value, bool) and python_type is not bool):
            raise TypeError

    return check


_PYTHON: Mapping[Type, Callable[[Any], None]] = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), _is(int)),
    **dict.fromkeys((Type.FLOAT32, Type.FLOAT64), _is(float)),
    Type.STRING: _is(str),
    Type.BOOLEAN: _is(bool),
    Type.BYTES: _is(bytes),
}


def _several(declared: Any, properties: Any, schema: Schema, path: str, named: dict[str, Any], depth: int) -> Make:
    length = _length(properties, path, _ITEMS)
    if declared["type"] == "array":
        item = _make(declared["items"], schema.elements, f"{path}[]", named, depth + 1)
        return lambda chance, now, name: [
            item(chance, now, f"{name}[{at}]") for at in range(_drawn(length, chance, name))
        ]
    value = _make(declared["values"], schema.elements, f"{path}[]", named, depth + 1)
    keys = properties.get("keys", {})
    options = keys.get("options")
    key: Make = (lambda chance, now, name: chance.of(options, name)) if options else _texts(keys, f"{path}: keys")
    return lambda chance, now, name: {
        key(chance, now, f"{name}[{at}]#"): value(chance, now, f"{name}[{at}]")
        for at in range(_drawn(length, chance, name))
    }


def _length(properties: Mapping[str, Any], path: str, default: tuple[int, int]) -> tuple[int, int]:
    """Return the bounds of a length: from the first up to the second."""
    length = properties.get("length")
    if length is None:
        return default
    low, high = (length.get("min", 0), length.get("max")) if isinstance(length, Mapping) else (length, None)
    high = low + 1 if high is None else high
    if not isinstance(low, int) or not isinstance(high, int) or not 0 <= low < high <= _LENGTH_MAX:
        raise ConfigError(f"{path}: length is to be a number, or min below max, up to {_LENGTH_MAX}, not {length!r}")
    return low, high


def _drawn(bounds: tuple[int, int], chance: Chance, name: str) -> int:
    return bounds[0] + chance.below(bounds[1] - bounds[0], f"{name}#")


def _texts(properties: Mapping[str, Any], path: str) -> Make:
    prefix, suffix = str(properties.get("prefix", "")), str(properties.get("suffix", ""))
    if "iteration" in properties:
        count = _counted(properties["iteration"], path)
        return lambda chance, now, name: f"{prefix}{count(chance.number)}{suffix}"
    if "regex" in properties:
        like = texts_like(str(properties["regex"]))
        return lambda chance, now, name: f"{prefix}{like(chance, name)}{suffix}"
    low, high = _length(properties, path, _LENGTH)
    any_text = texts_like(f"[a-z]{{{low}}}")
    longer = [texts_like(f"[a-z]{{{length}}}") for length in range(low + 1, min(high, low + 20))]
    return lambda chance, now, name: f"{prefix}{chance.of([any_text, *longer], f'{name}#')(chance, name)}{suffix}"


def _counted(iteration: Any, path: str) -> Callable[[int], Any]:
    if not isinstance(iteration, Mapping) or "start" not in iteration:
        raise ConfigError(f"{path}: iteration is to have a start")
    start, step = _number(iteration["start"], f"{path}: start"), _number(iteration.get("step", 1), f"{path}: step")
    restart = iteration.get("restart")
    if restart is None:
        return lambda number: start + step * number
    steps = math.ceil((_number(restart, f"{path}: restart") - start) / step) if step else 0
    if steps < 1:
        raise ConfigError(f"{path}: iteration from {start} to {restart} by {step} has no step")
    return lambda number: start + step * (number % steps)


def _number(number: Any, subject: str) -> Any:
    if not isinstance(number, int | float) or isinstance(number, bool):
        raise ConfigError(f"{subject} is to be a number, not {number!r}")
    return number


def _numbers(type_name: str, properties: Mapping[str, Any], schema: Schema, path: str, per_ms: int) -> Make:
    is_decimal = schema.name == logical.DECIMAL_NAME
    if type_name not in _NUMBERS and not is_decimal:
        raise ConfigError(f"{path}: values of the type {type_name!r} cannot be made")

    def as_value(number: Any) -> Any:
        if is_decimal:
            return _decimal(schema, Decimal(str(number)))
        if type_name in _BOUNDS:
            low, high = _BOUNDS[type_name]
            number = (int(number) - low) % (high - low) + low  # an iteration that ends begins anew, as Java's numbers
            return logical.decode(schema, number // per_ms) if logical.is_logical(schema) else number
        return float(number)

    if properties.get("now"):
        return lambda chance, now, name: as_value(now * per_ms)
    if "iteration" in properties:
        count = _counted(properties["iteration"], path)
        return lambda chance, now, name: as_value(count(chance.number))
    bounds = properties.get("range", {})
    low = _number(bounds.get("min", 0), f"{path}: min")
    high = _number(bounds.get("max", 1 if type_name in ("float", "double") else 2**31 - 1), f"{path}: max")
    if not low < high:
        raise ConfigError(f"{path}: range is to have min below max, not {low} and {high}")
    if type_name in _BOUNDS:
        first, count_of = math.ceil(low), max(1, math.ceil(high) - math.ceil(low))
        return lambda chance, now, name: as_value(first + chance.below(count_of, name))
    return lambda chance, now, name: as_value(low + (high - low) * chance.fraction(name))


def _decimal(schema: Schema, number: Decimal) -> Decimal:
    return decimals.rounded(number, logical.scale_of(schema))
