"""Keys and values of AVRO, PROTOBUF, PROTOBUF_NOSR and JSON_SR, by Connect's converters: plain Python, run by Spark.

    bytes ──converter──> Connect's value ──read──> a value of each column, times as numbers ──> Spark

Each column is optional; a field is found whatever its case. The names of schemas are those that ksqlDB gives them.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urlsplit

from odradek.client.serializers.registry import HttpRegistry, MemoryRegistry, Registry, Schema
from odradek.columnar.typed.schema_prefix import decode_indexes, decode_prefix, encode_prefix
from odradek.connect.converters.avro import AvroConverter
from odradek.connect.converters.json_schema import JsonSchemaConverter, read_json_schema
from odradek.connect.converters.protobuf import ProtobufConverter
from odradek.connect.converters.registered import RegisteredConverter
from odradek.connect.data import logical
from odradek.connect.data import schema as schemas
from odradek.connect.data.structs import Struct
from odradek.connect.errors import DataError
from odradek.errors import ErrorCode, KafkaError
from odradek.model import decimals
from odradek.sql.catalog import Form
from odradek.sql.plan import Codec
from odradek.sql.position import SqlError
from odradek.sql.types import SqlType, array_of, decimal_of, map_of, quote, struct_of

_CONVERTERS: Mapping[str, type[RegisteredConverter]] = {
    "AVRO": AvroConverter,
    "JSON_SR": JsonSchemaConverter,
    "PROTOBUF": ProtobufConverter,
    "PROTOBUF_NOSR": ProtobufConverter,
}
_RECORD = "io.confluent.ksql.avro_schemas.KsqlDataSourceSchema"
_DEFAULT_MESSAGE = "ConnectDefault"  # a name that begins so is not taken from a script, as in ksqlDB
_PLAIN = {
    "VARCHAR": schemas.STRING,
    "INT": schemas.INT32,
    "BIGINT": schemas.INT64,
    "DOUBLE": schemas.FLOAT64,
    "BOOLEAN": schemas.BOOLEAN,
    "BYTES": schemas.BYTES,
    "DATE": logical.DATE,
    "TIME": logical.TIME,
    "TIMESTAMP": logical.TIMESTAMP,
}
_ZERO: Mapping[str, Any] = {
    "VARCHAR": "", "INT": 0, "BIGINT": 0, "DOUBLE": 0.0, "BOOLEAN": False, "BYTES": b"",
}  # fmt: skip
_TIMES = {logical.DATE_NAME: "DATE", logical.TIME_NAME: "TIME", logical.TIMESTAMP_NAME: "TIMESTAMP"}
_STORED = {"DATE": "INT", "TIME": "INT", "TIMESTAMP": "BIGINT"}


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """A schema registry that executors can open."""

    url: str
    user: str = ""
    password: str = ""

    @classmethod
    def of(cls, url: str) -> RegistryAddress:
        """Return the address of a URL, which may have a user and a password: https://user:password@host."""
        parts = urlsplit(url)
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        return cls(bare, unquote(parts.username or ""), unquote(parts.password or ""))

    def open(self) -> Registry:
        """Return a client. Raises KafkaError(INVALID_CONFIG)."""
        return HttpRegistry(self.url, user=self.user or None, password=self.password)


# --- functions for Spark


def reader(codec: Codec, address: RegistryAddress | None) -> Callable[[bytes | None], dict[str, Any] | None]:
    """Return a function from bytes to columns by name; None for bytes that cannot be read."""
    converters: list[RegisteredConverter] = []

    def read(data: bytes | None) -> dict[str, Any] | None:
        if data is None:
            return None
        if not converters:
            converters.append(_converter(codec, address))
        raw = bytes(data)
        if codec.form.name == "PROTOBUF_NOSR":
            raw = encode_prefix(_own_id(codec, converters[0]), [0]) + raw
        try:
            found = converters[0].to_connect(codec.topic, raw)
            value = found.value
            if not codec.form.wrapped:
                return {codec.columns[0].name: stored(value, codec.columns[0].type)}
            if not isinstance(value, Struct):
                return None
            fields = {each.name.upper(): value[each.name] for each in value.schema.fields}
            return {each.name: stored(fields.get(each.name.upper()), each.type) for each in codec.columns}
        except (DataError, ValueError, TypeError, ArithmeticError):
            return None

    return read


def writer(codec: Codec, address: RegistryAddress | None) -> Callable[[Any], bytes | None]:
    """Return a function from columns, times as numbers, to bytes."""
    converters: list[RegisteredConverter] = []
    schemas_used: list[schemas.Schema] = []
    whole = struct_of({each.name: each.type for each in codec.columns})

    def write(row: Any) -> bytes | None:
        if row is None:
            return None
        if not converters:
            converters.append(_converter(codec, address))
            schemas_used.append(_schema_to_write(converters[0], codec))
        [schema] = schemas_used
        fills = codec.form.name.startswith("PROTOBUF")
        if codec.form.wrapped:
            value = connect_value(row, whole, schema, fills=fills)
        else:
            value = connect_value(row[codec.columns[0].name], codec.columns[0].type, schema, fills=fills)
        written = converters[0].from_connect(codec.topic, schema, value)
        if codec.form.name == "PROTOBUF_NOSR" and written is not None:
            return bytes(decode_indexes(decode_prefix(written)[1])[1])
        return written

    return write


def _schema_to_write(converter: RegisteredConverter, codec: Codec) -> schemas.Schema:
    """Return the schema of the columns or, if the script names one of the registry, that, with which it then writes."""
    schema_id = codec.form.schema_id
    if schema_id is None:
        return value_schema(codec)
    found = _registered_schema(converter, codec, schema_id)
    if isinstance(converter, ProtobufConverter):
        converter.writes(schema_id, converter.path_to(schema_id, codec.form.full_name))
    if isinstance(
        converter, AvroConverter
    ):  # its bytes follow the registered text: the order of a union's types counts
        converter._written[found] = (converter.registry.schema(schema_id), converter._parsed(schema_id)[0], "")
    converter.written_id = lambda *_: schema_id  # type: ignore[method-assign]
    return found


def row_type(codec: Codec) -> str:
    """Return the type of what a reader returns, in Spark's DDL."""
    return f"STRUCT<{', '.join(f'{quote(each.name)}: {_stored_type(each.type)}' for each in codec.columns)}>"


def _stored_type(kind: SqlType) -> str:
    if kind.name == "STRUCT":
        inner = (f"{quote(n)}: {_stored_type(each)}" for n, each in zip(kind.fields, kind.inner, strict=True))
        return f"STRUCT<{', '.join(inner)}>"
    if kind.inner:
        return f"{kind.name}<{', '.join(_stored_type(each) for each in kind.inner)}>"
    return _STORED.get(kind.name, kind.spark)


def _converter(codec: Codec, address: RegistryAddress | None) -> RegisteredConverter:
    form = codec.form
    made = _CONVERTERS[form.name]()
    configs: dict[str, Any] = {"decimal.format": "NUMERIC"} if form.name == "JSON_SR" else {}
    if form.nullable == "WRAPPER":
        configs["wrapper.for.nullables"] = True
    made.configure(configs, is_key=codec.part == "key")
    if form.name == "PROTOBUF_NOSR":
        made.registry = MemoryRegistry()
    elif address is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"format {form.name} needs a schema registry: --schema-registry URL")
    else:
        made.registry = address.open()
    return made


def descriptor_of(codec: Codec) -> str:
    """Return the descriptor of the messages of a codec of PROTOBUF_NOSR, in base64."""
    converter = _converter(codec, None)
    text: str = converter.registry.schema(_own_id(codec, converter)).text
    return text


def _own_id(codec: Codec, converter: RegisteredConverter) -> int:
    """Return the id of the schema of the declared columns, in the registry of this process."""
    schema = value_schema(codec)
    empty = converter.from_connect(codec.topic, schema, Struct(schema, {}))
    assert empty is not None
    return decode_prefix(empty)[0]


# --- schemas


def value_schema(codec: Codec) -> schemas.Schema:
    """Return the schema of a codec's columns."""
    if codec.form.name.startswith("PROTOBUF"):
        return _message_schema(codec)
    root = codec.form.full_name or _RECORD
    if not codec.form.wrapped:
        return schema_of(codec.columns[0].type, root, codec.form)
    fields = {each.name: schema_of(each.type, f"{root}_{each.name}", codec.form) for each in codec.columns}
    return schemas.struct(fields, name=root)


def _message_schema(codec: Codec) -> schemas.Schema:
    """Return the schema of a message. The messages within have no names of their own: the converter gives them."""
    if not codec.form.wrapped:
        return schema_of(codec.columns[0].type, None, codec.form)
    fields = {each.name: schema_of(each.type, None, codec.form) for each in codec.columns}
    name = codec.form.full_name
    return schemas.struct(fields, name=None if name.startswith(_DEFAULT_MESSAGE) else name or None)


def schema_of(kind: SqlType, name: str | None, form: Form) -> schemas.Schema:
    """Return the optional schema of a type. Args: the name of a struct; None: it has none, nor what is within."""
    if kind.name == "DECIMAL":
        made = logical.decimal(kind.scale, optional=True)
        precision = ("connect.decimal.precision", str(kind.precision))
        return replace(made, parameters=(*made.parameters, precision))
    if kind.inner and kind.name != "STRUCT" and form.nullable == "OPTIONAL":
        form = replace(form, nullable="")  # what is in a list or map of proto3 has no label
    if kind.name == "ARRAY":
        return schemas.array(schema_of(kind.inner[0], name, form), optional=True)
    if kind.name == "MAP":
        keys = schema_of(kind.inner[0], _within(name, "KEY"), form)
        if form.name != "AVRO":
            keys = keys.as_optional(False)
        entry = name if form.name == "AVRO" else None  # its entries are records there
        return schemas.map_of(keys, schema_of(kind.inner[1], _within(name, "VALUE"), form), optional=True, name=entry)
    if kind.name == "STRUCT":
        pairs = zip(kind.fields, kind.inner, strict=True)
        fields = {n: schema_of(each, _within(name, n), form) for n, each in pairs}
        return schemas.struct(fields, name=name, optional=True)
    # A scalar of proto3 has no NULL unless the script asks for it.
    plain = form.name.startswith("PROTOBUF") and not form.nullable and kind.name in _ZERO
    return _PLAIN[kind.name] if plain else _PLAIN[kind.name].as_optional()


def _within(name: str | None, part: str) -> str | None:
    return None if name is None else f"{name}_{part}"


def columns_of(registry: Registry, form: Form, topic: str, part: str) -> SqlType:
    """Return the columns that a registry has for a topic, as a STRUCT, or the type of a bare value.

    Raises:
        SqlError: there is no such schema, or it is of another format.
        KafkaError: the registry cannot answer.
    """
    if form.schema_id is not None:
        schema_id = form.schema_id
        registry.schema(schema_id)
    else:
        schema_id, _ = registry.at(f"{topic}-{part}", None)
    codec = Codec("", part, topic, form, ())
    converter = _CONVERTERS[form.name]()
    converter.configure({}, is_key=part == "key")
    converter.registry = registry
    found = _registered_schema(converter, codec, schema_id)
    return type_of(found)


def _registered_schema(converter: RegisteredConverter, codec: Codec, schema_id: int) -> schemas.Schema:
    try:
        if isinstance(converter, AvroConverter):
            return converter._parsed(schema_id)[1]
        if isinstance(converter, ProtobufConverter):
            return converter._message_of(schema_id, converter.path_to(schema_id, codec.form.full_name))[1]
        registered: Schema = converter.registry.schema(schema_id)
        return read_json_schema(json.loads(registered.text))
    except DataError as error:
        raise SqlError(f"the schema of {codec.topic}'s {codec.part} cannot be used: {error}") from None


def type_of(schema: schemas.Schema) -> SqlType:
    """Return the type of a schema's values. Raises SqlError if ksqlDB has none."""
    if schema.name == logical.DECIMAL_NAME:
        return decimal_of(int(schema.parameter("connect.decimal.precision") or 38), logical.scale_of(schema))
    if schema.name in _TIMES:
        return SqlType(_TIMES[schema.name or ""])
    kinds = schemas.Type
    if schema.type is kinds.STRUCT:
        return struct_of({each.name.upper(): type_of(each.schema) for each in schema.fields})
    if schema.type is kinds.ARRAY:
        return array_of(type_of(schema.elements))
    if schema.type is kinds.MAP:
        assert schema.key_schema is not None
        return map_of(type_of(schema.key_schema), type_of(schema.elements))
    names = {
        kinds.STRING: "VARCHAR", kinds.INT64: "BIGINT", kinds.FLOAT32: "DOUBLE", kinds.FLOAT64: "DOUBLE",
        kinds.BOOLEAN: "BOOLEAN", kinds.BYTES: "BYTES",
    }  # fmt: skip
    return SqlType(names.get(schema.type, "INT"))


# --- values


def stored(value: Any, kind: SqlType) -> Any:
    """Return a value of Connect as a column holds it: times as numbers."""
    if value is None:
        return None
    if kind.name == "STRUCT":
        fields = {each.name.upper(): value[each.name] for each in value.schema.fields}
        return {n: stored(fields.get(n.upper()), each) for n, each in zip(kind.fields, kind.inner, strict=True)}
    if kind.name == "ARRAY":
        return [stored(each, kind.inner[0]) for each in value]
    if kind.name == "MAP":
        return {stored(k, kind.inner[0]): stored(v, kind.inner[1]) for k, v in value.items()}
    if isinstance(value, dt.datetime):
        return logical.ms_of(value)
    if isinstance(value, dt.date):
        return (value - logical.EPOCH_DATE).days
    if isinstance(value, dt.time):
        return logical.time_ms(value)
    if kind.name == "DOUBLE":
        return float(value)
    if kind.name in ("INT", "BIGINT", "DATE", "TIME", "TIMESTAMP"):
        return int(value)
    if kind.name == "DECIMAL":
        return decimals.rounded(Decimal(value), kind.scale)
    return str(value) if kind.name == "VARCHAR" else value


def connect_value(value: Any, kind: SqlType, schema: schemas.Schema, *, fills: bool = False) -> Any:
    """Return a column's value, times as numbers, as one of Connect.

    Args:
        fills: a scalar that is NULL, where the schema does not allow it, becomes 0, an empty text and so on.
    """
    if value is None:
        return _ZERO.get(kind.name) if fills and not schema.optional else None
    if kind.name == "STRUCT":  # fields that a registered schema has besides have no value
        columns = {name.upper(): (value[name], each) for name, each in zip(kind.fields, kind.inner, strict=True)}
        given = {field: columns.get(field.name.upper()) for field in schema.fields}
        return Struct(schema, {
            field.name: connect_value(*found, field.schema, fills=fills)
            for field, found in given.items() if found is not None
        })  # fmt: skip
    if kind.name == "ARRAY":
        return [connect_value(each, kind.inner[0], schema.elements, fills=fills) for each in value]
    if kind.name == "MAP":
        assert schema.key_schema is not None
        pairs = value.items() if isinstance(value, Mapping) else value  # Arrow has maps as pairs
        return {
            connect_value(k, kind.inner[0], schema.key_schema, fills=fills): connect_value(
                v, kind.inner[1], schema.elements, fills=fills
            )
            for k, v in pairs
        }
    if kind.is_time:
        return logical.decode(schema, int(value))
    return bytes(value) if kind.name == "BYTES" else value
