"""JSON, with the schema in an envelope or without schemas."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from decimal import Decimal
from itertools import islice
from typing import Any

from odradek.connect.config import ConfigDef, Kind, one_of
from odradek.connect.converters.base import Converter
from odradek.connect.converters.json_format import from_json, read_schema, schema_json, to_json
from odradek.connect.data.schema import Schema, interned
from odradek.connect.data.values import NULL, SchemaAndValue, number_text
from odradek.connect.errors import DataError

_CACHED = 1000
_PAYLOAD = re.compile(rb'"payload"\s*:')
_PAYLOAD_TRIES = 3  # a schema may have fields of that name, or of quotes and colons
_DECIMAL_MARK = "\x00decimal:"  # no JSON text of ours contains it: control characters are escaped
_DECODER = json.JSONDecoder(parse_float=Decimal)


class JsonConverter(Converter):
    """JSON: {"schema": ..., "payload": ...}, or the payload alone with schemas.enable=false."""

    config_def = (
        ConfigDef()
        .define("schemas.enable", Kind.BOOLEAN, True, "Whether each message contains its schema.", importance="HIGH")
        .define("schemas.cache.size", Kind.INT, _CACHED, "Number of schemas that are kept parsed.", importance="HIGH")
        .define(
            "decimal.format",
            Kind.STRING,
            "BASE64",
            "How decimals are written: BASE64 (as Kafka Connect by default), or NUMERIC, a JSON number.",
            importance="LOW",
            allowed=one_of("BASE64", "NUMERIC", ignore_case=True),
        )
        .define(
            "replace.null.with.default",
            Kind.BOOLEAN,
            True,
            "Whether a null of a field that has a default is replaced by the default.",
            importance="LOW",
        )
    )

    def configure(self, configs: Any, *, is_key: bool) -> None:
        super().configure(configs, is_key=is_key)
        self._has_schemas: bool = self.configs["schemas.enable"]
        self._decimals = str(self.configs["decimal.format"]).upper()
        self._replaces: bool = self.configs["replace.null.with.default"]
        self._read: dict[str, Schema | None] = {}
        self._written: dict[Schema, bytes] = {}  # the message up to its payload
        self._begun: dict[str, tuple[bytes, Schema | None]] = {}  # likewise, of the last message read of each topic

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is None and value is None:
            return None
        payload = to_json(schema, value, decimal_format=self._decimals, replace_null_with_default=self._replaces)
        if not self._has_schemas:
            return dump(payload)
        if schema is None:
            return dump({"schema": None, "payload": payload})
        start = self._written.get(schema)
        if start is None:
            start = b'{"schema":%b,"payload":' % dump(schema_json(schema, decimal_format=self._decimals))
            if len(self._written) < self.configs["schemas.cache.size"]:
                self._written[schema] = start
        return b"%b%b}" % (start, dump(payload))

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        begun = self._begun.get(topic)
        if begun is not None and data.startswith(begun[0]) and data.endswith(b"}"):
            # The schema was parsed before. What follows it is one value, or this is no such message.
            with suppress(DataError):
                return self._value(begun[1], load(data[len(begun[0]) : -1]))
        document = load(data) if data else None
        if not self._has_schemas:
            return SchemaAndValue(None, from_json(None, document))
        if not isinstance(document, dict) or document.keys() != {"schema", "payload"}:
            raise DataError(
                'the value must be {"schema": ..., "payload": ...}, since schemas.enable is true; for plain JSON set '
                "schemas.enable=false in the converter's configuration"
            )
        text = json.dumps(document["schema"], default=str)
        if text not in self._read:
            if len(self._read) >= self.configs["schemas.cache.size"]:
                self._read.clear()
            schema_read = read_schema(document["schema"])
            self._read[text] = None if schema_read is None else interned(schema_read)
        schema = self._read[text]
        start = _start_of(data, document["schema"])
        if start is not None:
            self._begun[topic] = start, schema
        return self._value(schema, document["payload"])

    def _value(self, schema: Schema | None, payload: Any) -> SchemaAndValue:
        return SchemaAndValue(schema, from_json(schema, payload, replace_null_with_default=self._replaces))


def _start_of(data: bytes, schema: Any) -> bytes | None:
    """Return a message up to its payload, None if something else follows the schema."""
    for match in islice(_PAYLOAD.finditer(data), _PAYLOAD_TRIES):
        start = data[: match.end()]
        with suppress(DataError):
            if load(start + b"null}") == {"schema": schema, "payload": None}:
                return start
    return None


def dump(document: Any) -> bytes:
    """Return compact JSON; decimals are numbers with all their digits. NaN and infinities are text, as Jackson writes.

    Raises:
        DataError: a value is none that JSON has.
    """
    try:
        return _ENCODER.encode(document).encode()
    except (_NotPlain, ValueError):
        return _dump_decimals(_with_text(document))


def _with_text(document: Any) -> Any:
    """Return a document with text in place of NaN and infinities."""
    if isinstance(document, float) and not math.isfinite(document):
        return number_text(document)
    if isinstance(document, list | tuple):
        return [_with_text(element) for element in document]
    if isinstance(document, dict):
        return {name: _with_text(element) for name, element in document.items()}
    return document


class _NotPlain(Exception):
    """A value that JSON does not have by itself."""


def _not_plain(_: Any) -> Any:
    raise _NotPlain


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_not_plain, allow_nan=False)


def _dump_decimals(document: Any) -> bytes:
    decimals: list[str] = []

    def other(value: Any) -> str:
        if isinstance(value, Decimal):
            decimals.append(f"{value:f}")
            return _DECIMAL_MARK
        raise DataError(f"a {type(value).__name__} cannot be written as JSON")

    try:
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=other, allow_nan=False)
    except ValueError as error:
        raise DataError(f"the value cannot be written as JSON: {error}") from error
    if decimals:
        parts = text.split(json.dumps(_DECIMAL_MARK))
        if len(parts) != len(decimals) + 1:
            raise DataError("the value contains a text that cannot be written beside decimals")
        text = "".join(part + number for part, number in zip(parts, [*decimals, ""], strict=True))
    return text.encode()


def load(data: bytes) -> Any:
    """Return JSON data, with decimals for numbers that are not whole. Raises DataError."""
    with suppress(ValueError):  # other encodings than UTF-8 are rare
        return _DECODER.decode(data.decode())
    try:
        return _DECODER.decode(data.decode(json.detect_encoding(data), "surrogatepass"))
    except ValueError as error:
        raise DataError(f"the bytes are not JSON: {error}") from error
