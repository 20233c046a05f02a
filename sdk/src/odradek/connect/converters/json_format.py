"""Values and schemas as plain JSON data: the rules of Connect's JsonConverter.

Source: Kafka's org.apache.kafka.connect.json.JsonConverter.
"""

from __future__ import annotations

import base64
import binascii
import struct as structs
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from odradek.connect.data import logical
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.structs import Struct, check_value, same_struct
from odradek.connect.data.values import float32_of, short_float32
from odradek.connect.errors import DataError

_TYPES = {schema_type.value: schema_type for schema_type in Type}
_COMPILED = 1_000  # schemas whose writers and readers are kept


def schema_json(schema: Schema, *, decimal_format: str = "BASE64") -> dict[str, Any]:
    """Return the JSON of a schema, as in the envelope."""
    made: dict[str, Any] = {"type": schema.type.value}
    if schema.type is Type.ARRAY:
        made["items"] = schema_json(schema.elements)
    elif schema.type is Type.MAP:
        assert schema.key_schema is not None
        made["keys"] = schema_json(schema.key_schema)
        made["values"] = schema_json(schema.elements)
    elif schema.type is Type.STRUCT:
        made["fields"] = [{**schema_json(field.schema), "field": field.name} for field in schema.fields]
    made["optional"] = schema.optional
    for name in ("name", "version", "doc"):
        if getattr(schema, name) is not None:
            made[name] = getattr(schema, name)
    if schema.parameters:
        made["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        made["default"] = to_json(schema, schema.default, decimal_format=decimal_format)
    return made


def read_schema(document: Any) -> Schema | None:
    """Return the schema of an envelope's JSON, None for null. Raises DataError."""
    if document is None:
        return None
    if not isinstance(document, Mapping) or document.get("type") not in _TYPES:
        raise DataError(f"a schema needs a 'type' of {', '.join(_TYPES)}: {document!r:.200}")
    schema_type = _TYPES[document["type"]]
    version = document.get("version")
    made = Schema(
        schema_type,
        optional=document.get("optional") is True,
        name=_text(document, "name"),
        version=version if isinstance(version, int) and not isinstance(version, bool) else None,
        doc=_text(document, "doc"),
        parameters=_parameters(document),
    )
    if schema_type is Type.ARRAY:
        made = replace(made, value_schema=_part(document, "items"))
    elif schema_type is Type.MAP:
        made = replace(made, key_schema=_part(document, "keys"), value_schema=_part(document, "values"))
    elif schema_type is Type.STRUCT:
        fields = document.get("fields")
        if not isinstance(fields, list) or not all(isinstance(field, Mapping) and "field" in field for field in fields):
            raise DataError("the schema of a struct needs 'fields', a list of schemas with a 'field' name")
        made = made.with_fields((str(field["field"]), _of(field)) for field in fields)
    default = document.get("default")
    return made if default is None else replace(made, default=from_json(made, default))


def _of(document: Any) -> Schema:
    schema_read = read_schema(document)
    if schema_read is None:
        raise DataError("the schema of a field, key, value or element must not be null")
    return schema_read


def _part(document: Mapping[str, Any], name: str) -> Schema:
    if name not in document:
        raise DataError(f"a schema of type {document['type']} needs {name!r}")
    return _of(document[name])


def _text(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) else None


def _parameters(document: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    stored_parameters = document.get("parameters") or {}
    if not isinstance(stored_parameters, Mapping) or not all(
        isinstance(value, str) for value in stored_parameters.values()
    ):
        raise DataError("the parameters of a schema must be text")
    return tuple(sorted(stored_parameters.items()))


def to_json(
    schema: Schema | None,
    value: Any,
    *,
    decimal_format: str = "BASE64",
    replace_null_with_default: bool = True,
    leave_out: bool = False,
) -> Any:
    """Return a value as JSON data. Raises DataError if it does not fit its schema.

    Args:
        leave_out: a required field that was not set is left out, and is not an error.
    """
    return _writer(schema, _Form(decimal_format == "NUMERIC", replace_null_with_default, leave_out))(value)


_NOT_IN_JSON = ("NaN", "Infinity", "-Infinity")  # floats, which are text there as Jackson writes them
_Convert = Callable[[Any], Any]


class _Form(NamedTuple):
    """How values are written."""

    is_numeric: bool  # decimals
    replaces: bool  # null by the default of its schema
    leaves_out: bool  # what is required and not there


@lru_cache(maxsize=_COMPILED)
def _writer(schema: Schema | None, form: _Form) -> _Convert:
    """Return what writes values of a schema: its decisions are made once, and not for each value."""
    if schema is None:
        return _plain_json
    if _is_written_as_it_is(schema):
        return _checker(schema)
    write = _writer_of_present(schema, form)
    if schema.default is not None and form.replaces:
        default = schema.default
        return lambda value: write(default if value is None else value)
    if schema.optional:
        return lambda value: None if value is None else write(value)

    def required(value: Any) -> Any:
        if value is None:
            raise DataError("a null value, but its field is required and has no default")
        return write(value)

    return required


def _is_written_as_it_is(schema: Schema) -> bool:
    is_plain = schema.type in (Type.STRING, Type.BOOLEAN) or schema.type in schemas.INTEGER_BITS
    return is_plain and schema.default is None and not logical.is_logical(schema)


def _checker(schema: Schema) -> _Convert:
    """Return what returns a value of a plain schema, also null. Raises DataError as `check_value`, but is faster."""
    bits = schemas.INTEGER_BITS.get(schema.type)
    if bits is not None:
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1

        def check_whole(value: Any) -> Any:
            if type(value) is not int or not low <= value <= high:
                check_value(schema, value)
            return value

        return check_whole
    exact = str if schema.type is Type.STRING else bool

    def check(value: Any) -> Any:
        if type(value) is not exact:
            check_value(schema, value)
        return value

    return check


def _writer_of_present(schema: Schema, form: _Form) -> _Convert:
    """Return what writes values of a schema that are not null."""
    if schema.name == logical.DECIMAL_NAME and form.is_numeric:
        return lambda value: _checked(schema, value)
    if logical.is_logical(schema):
        return _logical_writer(schema)
    if schema.type.is_primitive:
        return _primitive_writer(schema)
    if schema.type is Type.STRUCT:
        return _struct_writer(schema, form)
    element = _writer(schema.elements, form)
    if schema.type is Type.ARRAY:
        return lambda value: [element(element_value) for element_value in _of_kind(schema, value, list | tuple)]
    key = _writer(schema.key_schema, form)
    if schema.key_schema is not None and schema.key_schema.type is Type.STRING:
        return lambda value: {
            key(name): element(element_value) for name, element_value in _of_kind(schema, value, Mapping).items()
        }
    return lambda value: [
        [key(name), element(element_value)] for name, element_value in _of_kind(schema, value, Mapping).items()
    ]


def _logical_writer(schema: Schema) -> _Convert:
    encode = logical.encoder(schema)
    if schema.name == logical.DECIMAL_NAME:
        return lambda value: b2a_base64(encode(value), newline=False).decode()
    return encode


def _struct_writer(schema: Schema, form: _Form) -> _Convert:
    # A struct has checked its fields when they were set. So only those that have another form in JSON are written one
    # by one, and those that are required if any field is null.
    names = schema.names
    changed = [
        (field.name, _writer(field.schema, form)) for field in schema.fields if not _is_written_as_it_is(field.schema)
    ]
    required = tuple(
        field.name for field in schema.fields if not field.schema.optional and field.schema.default is None
    )

    def write(value: Any) -> Any:
        if not isinstance(value, Struct) or not same_struct(value.schema, schema):
            raise DataError(f"the value is not a struct of its schema {schema.name or ''}: {value!r:.80}")
        get = value.present.get
        made = {name: get(name) for name in names}
        missing: list[str] = []
        if None in made.values():
            missing = [name for name in required if made[name] is None]
            if missing and not form.leaves_out:
                raise DataError(f"{missing[0]} is null, but is required and has no default")
        for name, write_field in changed:
            if name not in missing:
                made[name] = write_field(made[name])
        for name in missing:
            del made[name]
        return made

    return write


def _primitive_writer(schema: Schema) -> _Convert:
    schema_type = schema.type
    if schema_type is Type.BYTES:
        return lambda value: base64.b64encode(bytes(_checked(schema, value))).decode()
    if schema_type is Type.FLOAT32:
        return lambda value: short_float32(float(_checked(schema, value)))
    if schema_type is Type.FLOAT64:
        return lambda value: float(_checked(schema, value))
    return _checker(schema)


def _checked(schema: Schema, value: Any) -> Any:
    check_value(schema, value)
    return value


def _of_kind(schema: Schema, value: Any, kinds: Any) -> Any:
    if not isinstance(value, kinds):
        raise DataError(f"a {schema.type.value} was expected, not {type(value).__name__}")
    return value


def _plain_json(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str | Decimal):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, list | tuple):
        return [_plain_json(element) for element in value]
    if isinstance(value, Struct):
        return to_json(value.schema, value)
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _plain_json(element) for key, element in value.items()}
        return [[_plain_json(key), _plain_json(element)] for key, element in value.items()]
    raise DataError(f"a {type(value).__name__} without a schema cannot be written as JSON")


def from_json(
    schema: Schema | None, value: Any, *, replace_null_with_default: bool = True, leave_out: bool = False
) -> Any:
    """Return the value of JSON data. Raises DataError if it does not fit the schema.

    Args:
        leave_out: a required field that is not there is not an error; one that is null is.
    """
    return _reader(schema, replace_null_with_default, leave_out)(value)


@lru_cache(maxsize=_COMPILED)
def _reader(schema: Schema | None, replaces: bool, leaves_out: bool) -> _Convert:
    """Return what reads values of a schema."""
    if schema is None:
        return _plain
    if _is_written_as_it_is(schema):
        return _whole_reader(schema) if schema.type in schemas.INTEGER_BITS else _checker(schema)
    read = _reader_of_present(schema, replaces, leaves_out)
    if schema.default is not None and replaces:
        default = schema.default
        return lambda value: default if value is None else read(value)
    if schema.optional:
        return lambda value: None if value is None else read(value)

    def required(value: Any) -> Any:
        if value is None:
            raise DataError(f"null for a required value of type {schema.type.value}")
        return read(value)

    return required


def _reader_of_present(schema: Schema, replaces: bool, leaves_out: bool) -> _Convert:
    """Return what reads values of a schema that are not null."""
    if logical.is_logical(schema):
        return lambda value: _read_logical(schema, value)
    if schema.type.is_primitive:
        return _primitive_reader(schema)
    if schema.type is Type.STRUCT:
        return _struct_reader(schema, replaces, leaves_out)
    element = _reader(schema.elements, replaces, leaves_out)
    if schema.type is Type.ARRAY:
        return lambda value: [element(element_value) for element_value in _of_kind(schema, value, list)]
    if schema.key_schema is not None and schema.key_schema.type is Type.STRING:
        return lambda value: {
            name: element(element_value) for name, element_value in _of_kind(schema, value, Mapping).items()
        }
    key = _reader(schema.key_schema, replaces, leaves_out)

    def read_pairs(value: Any) -> dict[Any, Any]:
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in _of_kind(schema, value, list)):
            raise DataError("a map whose keys are not text is a list of pairs in JSON")
        return {key(name): element(element_value) for name, element_value in value}

    return read_pairs


def _struct_reader(schema: Schema, replaces: bool, leaves_out: bool) -> _Convert:
    fields = [(field.name, _reader(field.schema, replaces, leaves_out)) for field in schema.fields]

    def read(value: Any) -> Struct:
        get = value.get if type(value) is dict else _of_kind(schema, value, Mapping).get
        return Struct.of_checked(schema, {name: read_field(get(name)) for name, read_field in fields})

    if not leaves_out:
        return read
    may_miss = {field.name for field in schema.fields if not field.schema.optional and field.schema.default is None}

    def read_some(value: Any) -> Struct:
        mapping = _of_kind(schema, value, Mapping)
        present = [(name, read_field) for name, read_field in fields if name in mapping or name not in may_miss]
        return Struct.of_checked(schema, {name: read_field(mapping.get(name)) for name, read_field in present})

    return read_some


def _read_logical(schema: Schema, value: Any) -> Any:
    if schema.name == logical.DECIMAL_NAME and _is_number(value):
        return value if isinstance(value, Decimal) else Decimal(str(value))
    if schema.type is Type.BYTES:
        return logical.decode(schema, _bytes(value))
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(f"a {schema.name} is a whole number in JSON, not {value!r}")
    return logical.decode(schema, value)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {key: _plain(element) for key, element in value.items()}
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise DataError(f"bytes are base64 text in JSON, not {value!r:.80}") from None


def _primitive_reader(schema: Schema) -> _Convert:
    schema_type = schema.type
    if schema_type is Type.BYTES:
        return _bytes
    if schema_type is Type.FLOAT32:
        return lambda value: _float32(schema, value)
    if schema_type is Type.FLOAT64:
        return lambda value: float(value) if type(value) is Decimal else _float(schema, value)
    return _whole_reader(schema) if schema_type in schemas.INTEGER_BITS else _checker(schema)


def _float32(schema: Schema, value: Any) -> float:
    if type(value) is Decimal:
        return float32_of(value)
    return float(structs.unpack(">f", structs.pack(">f", _float(schema, value)))[0])


def _float(schema: Schema, value: Any) -> float:
    if isinstance(value, str) and value in _NOT_IN_JSON:
        return float(value)
    if not _is_number(value):
        check_value(schema, value)
    return float(value)


def _whole_reader(schema: Schema) -> _Convert:
    check = _checker(schema)

    def read(value: Any) -> Any:
        if type(value) is not int and isinstance(value, Decimal | float):
            raise DataError(f"{schema.type.value} is a whole number, not {value}")
        return check(value)

    return read
