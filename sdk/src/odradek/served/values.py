"""Keys and values of rows as JSON has them, and keys from the text of a request.

    STRING    text                                  JSON      the JSON value
    INT, BIGINT, DOUBLE    numbers, big-endian      AVRO      the value, by the registry's schema of its id
    BYTES     base64

A JSON value may have five bytes before it, 0 and a schema id, as JSON_SR has it.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.model.table import Format
from odradek.registry.errors import RegistryError
from odradek.registry.schemas import Reference
from odradek.registry.subjects import Subjects
from odradek.served.avro import decode_avro

_NUMBERS = {Format.INT: ">i", Format.BIGINT: ">q", Format.DOUBLE: ">d"}
_PREFIX_BYTES = 5
_REFERENCED_MAX = 100


class Schemas(Protocol):
    """The registry, as rows need it."""

    async def texts(self, schema_id: int) -> tuple[str, list[str]]:
        """The text of a schema, and those of the schemas that it uses. Raises FormatError: there is none."""
        ...


class RegistrySchemas:
    """The schemas of this store's registry.

    Args:
        subjects: of the registry.
    """

    def __init__(self, subjects: Subjects) -> None:
        self._subjects = subjects
        self._known: dict[int, tuple[str, list[str]]] = {}

    async def texts(self, schema_id: int) -> tuple[str, list[str]]:
        if schema_id not in self._known:
            try:
                stored = await self._subjects.schema(schema_id)
                texts: dict[tuple[str, int], str] = {}
                await self._collect(stored.schema.references, texts)
            except RegistryError as error:
                raise FormatError(f"schema {schema_id} cannot be read: {error.message}") from None
            self._known[schema_id] = (stored.schema.text, list(texts.values()))
        return self._known[schema_id]

    async def _collect(self, references: Sequence[Reference], texts: dict[tuple[str, int], str]) -> None:
        """Add the schemas of references, those that they use first."""
        for reference in references:
            version_key = (reference.subject, reference.version)
            if version_key in texts or len(texts) > _REFERENCED_MAX:
                continue
            registered = await self._subjects.version(reference.subject, reference.version, deleted=True)
            await self._collect(registered.stored.schema.references, texts)
            texts[version_key] = registered.stored.schema.text


async def decode(data: bytes, form: str, schemas: Schemas) -> Any:
    """A key or value as JSON has it. Raises FormatError."""
    if form == Format.AVRO:
        if len(data) < _PREFIX_BYTES or data[0] != 0:
            raise FormatError("it does not begin with a schema id")
        text, references = await schemas.texts(int.from_bytes(data[1:_PREFIX_BYTES], "big"))
        return decode_avro(data[_PREFIX_BYTES:], text, references)
    return _PLAIN[Format(form)](data)


def _json(data: bytes) -> Any:
    if data[:1] == b"\0" and len(data) > _PREFIX_BYTES:
        data = data[_PREFIX_BYTES:]
    try:
        return json.loads(data, parse_constant=str)
    except (ValueError, RecursionError):
        raise FormatError("it is not JSON") from None


def _string(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise FormatError("it is not UTF-8") from None


def _number(form: Format) -> Callable[[bytes], Any]:
    layout = _NUMBERS[form]

    def read(data: bytes) -> Any:
        if len(data) != struct.calcsize(layout):
            raise FormatError(f"it has {len(data)} bytes, not the {struct.calcsize(layout)} of {form}")
        (number,) = struct.unpack(layout, data)
        return str(number) if isinstance(number, float) and not math.isfinite(number) else number

    return read


_PLAIN: dict[Format, Callable[[bytes], Any]] = {
    Format.STRING: _string,
    Format.JSON: _json,
    Format.BYTES: lambda data: base64.b64encode(data).decode(),
    **{form: _number(form) for form in _NUMBERS},
}


def key_bytes(text: str, form: str) -> bytes:
    """The key that the text of a request names. Raises KafkaError(INVALID_REQUEST)."""
    try:
        if form in _NUMBERS:
            layout = _NUMBERS[Format(form)]
            return struct.pack(layout, float(text) if form == Format.DOUBLE else int(text))
        if form == Format.JSON:
            # Without blanks, as Spark and ksqlDB write it; a bare text stands for a JSON text.
            return json.dumps(_json_key(text), separators=(",", ":"), ensure_ascii=False).encode()
        if form in (Format.BYTES, Format.AVRO):
            return base64.b64decode(text, validate=True)
    except (ValueError, struct.error, OverflowError, binascii.Error, RecursionError):
        wanted = {Format.BYTES: "bytes in base64", Format.AVRO: "the key's bytes, schema id included, in base64"}
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"invalid key {text[:100]!r}: give {wanted.get(Format(form), f'a key of {form}')}",
        ) from None
    return text.encode("utf-8", "surrogateescape")


def _json_key(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
