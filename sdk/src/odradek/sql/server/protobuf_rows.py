"""Rows of queries as Protobuf messages, and the .proto file of a query's columns (application/vnd.ksql.v1+protobuf).

{"header": {"queryId": ..., "schema": ..., "protoSchema": "syntax = \\"proto3\\"; ..."}}
{"row": {"protobufBytes": "the message ConnectDefault1, in base64"}}

The messages are those of PROTOBUF_NOSR: a field for each column, in their order. Times and DECIMALs are messages of
Google's and Confluent's, which the file imports.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from odradek.connect.data import logical
from odradek.registry.protobuf.files import Field, File, Message
from odradek.registry.protobuf.wire import parse_descriptor
from odradek.sql.catalog import Column, Form
from odradek.sql.plan import Codec
from odradek.sql.running.registered import descriptor_of, writer
from odradek.sql.session import Row
from odradek.sql.types import VARCHAR, SqlType


class ProtobufRows:
    """The messages of one query. Args: names and types of its columns; a type is None where it is not known."""

    def __init__(self, names: Sequence[str], types: Sequence[SqlType | None]) -> None:
        self._columns = tuple(Column(name, kind or VARCHAR) for name, kind in zip(names, types, strict=True))
        codec = Codec("", "value", "rows", Form("PROTOBUF_NOSR"), self._columns)
        self._write = writer(codec, None)
        self.proto = _proto(parse_descriptor(descriptor_of(codec)))

    def encoded(self, row: Row) -> str:
        """Return a row as the engine shows it, as a message in base64."""
        values = {each.name: _stored(value, each.type) for each, value in zip(self._columns, row, strict=True)}
        return base64.b64encode(self._write(values) or b"").decode()


def _stored(value: Any, kind: SqlType) -> Any:
    """Return a value that is shown as JSON as columns store it: times as numbers, bytes as such."""
    if value is None:
        return None
    if kind.name == "STRUCT":
        return {name: _stored(value[name], each) for name, each in zip(kind.fields, kind.inner, strict=True)}
    if kind.name == "ARRAY":
        return [_stored(each, kind.inner[0]) for each in value]
    if kind.name == "MAP":
        return {key: _stored(each, kind.inner[1]) for key, each in value.items()}
    if kind.name == "TIMESTAMP":
        return logical.ms_of(dt.datetime.fromisoformat(value))
    if kind.name == "DATE":
        return (dt.date.fromisoformat(value) - logical.EPOCH_DATE).days
    if kind.name == "DECIMAL":
        return Decimal(value)
    return base64.b64decode(value) if kind.name == "BYTES" else value


def _proto(file: File) -> str:
    """Return a file as text."""
    lines = [f'syntax = "{file.syntax}";', ""]
    lines += [f'import "{path}";\n' for path, _ in file.imports]
    for message in file.messages:
        lines += _message(message, "")
    return "\n".join(lines) + "\n"


def _message(message: Message, indent: str) -> list[str]:
    inner = indent + "  "
    lines = [f"{indent}message {message.name} {{"]
    lines += [f"{inner}{_field(each)}" for each in message.fields]
    for each in message.messages:
        lines += _message(each, inner)
    return [*lines, f"{indent}}}"]


def _field(field: Field) -> str:
    kind = f"map<{field.key}, {field.type}>" if field.key else field.type
    label = f"{field.label} " if field.label and not field.key else ""
    options = ", ".join(f"{name} = {value}" for name, value in field.options)
    return f"{label}{kind} {field.name} = {field.number}{f' [{options}]' if options else ''};"
