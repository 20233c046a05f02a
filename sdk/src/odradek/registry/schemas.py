"""Schemas of all three languages: parsing with references, the canonical form, the GUID. Pure.

Texts with the same canonical form are one schema and have one id under all subjects. The GUID is the first half of the
SHA-256 of language, canonical form and references. It identifies a schema independently of a registry, and it is the
key at which concurrent registrations of one schema meet.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from odradek.registry import avro, json_schema
from odradek.registry.avro import AvroType
from odradek.registry.budget import Budget
from odradek.registry.errors import SchemaInvalid, invalid_schema
from odradek.registry.protobuf import files, wire
from odradek.registry.protobuf.files import File, Types
from odradek.registry.protobuf.text import parse_text

Kind = Literal["AVRO", "JSON", "PROTOBUF"]
KINDS: tuple[Kind, ...] = ("JSON", "PROTOBUF", "AVRO")


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to another schema; `name` is how the referring text calls it."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as a client registers it."""

    kind: Kind
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class ReferencedText:
    """A schema that is referred to, directly or indirectly, and the name that the referring text uses."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed schema."""

    schema: Schema
    tree: AvroType | json_schema.Document | tuple[File, Types]
    canonical: str

    @property
    def guid(self) -> UUID:
        references = sorted(
            (reference.name, reference.subject, reference.version) for reference in self.schema.references
        )
        digest = hashlib.sha256(json.dumps([self.schema.kind, self.canonical, references]).encode()).digest()
        return UUID(bytes=digest[:16])


def parse(schema: Schema, references: Sequence[ReferencedText], budget: Budget | None = None) -> Parsed:
    """Parse a schema. Raises RegistryError(42201), whose message names the error in the schema.

    Args:
        references: all schemas that it needs, directly or indirectly, each after those that it needs itself.
        budget: for the schema and its references together.
    """
    budget = budget or Budget()
    try:
        schema.text.encode()
        if schema.kind == "AVRO":
            return _parse_avro(schema, references, budget)
        if schema.kind == "JSON":
            document = json_schema.Document(
                json_schema.load(schema.text, budget),
                {reference.name: reference.text for reference in references},
                budget,
            )
            document.check_refs()
            return Parsed(schema, document, json_schema.canonical(schema.text))
        referred = {reference.name: parse_proto(reference.text) for reference in references}
        file, types = files.resolve(parse_proto(schema.text), referred)
        return Parsed(schema, (file, types), files.canonical(file))
    except SchemaInvalid as error:
        raise invalid_schema(_printable(str(error))) from None
    except UnicodeEncodeError:
        raise invalid_schema("it contains half of a surrogate pair, which UTF-8 cannot encode") from None
    except RecursionError:
        raise invalid_schema("it is nested too deeply") from None


def _printable(message: str) -> str:
    """Return a message that UTF-8 can encode, whatever part of the schema it quotes."""
    return message[:2_000].encode(errors="backslashreplace").decode()


def _parse_avro(schema: Schema, references: Sequence[ReferencedText], budget: Budget) -> Parsed:
    names: avro.Names = {}
    for text in dict.fromkeys(reference.text for reference in references):  # several names may refer to one schema
        avro.parse(text, names, budget)
    return Parsed(schema, avro.parse(schema.text, names, budget), avro.canonical(schema.text))


def normalized(schema: Schema, references: Sequence[ReferencedText], budget: Budget | None = None) -> Schema:
    """Return the schema with its text normalized (`normalize=true`). Raises RegistryError(42201)."""
    parsed = parse(schema, references, budget)
    if schema.kind == "AVRO":
        return Schema("AVRO", avro.normalized(schema.text), schema.references)
    if schema.kind == "JSON":
        return Schema("JSON", parsed.canonical, schema.references)
    return schema  # its canonical form already ignores order and spelling


def parse_proto(text: str) -> File:
    """Parse a .proto file from its text or from its base64 descriptor. Raises SchemaInvalid."""
    return wire.parse_descriptor(text) if is_serialized(text) else parse_text(text)


def is_serialized(text: str) -> bool:
    """Return True if a .proto file is given as a base64 descriptor, not as text."""
    stripped = text.strip()
    return bool(stripped) and not any(sign in stripped for sign in ' ;{}"')


def serialized(parsed: Parsed, name: str = "") -> str:
    """Return the text for `format=serialized`: a .proto file's descriptor in base64, any other schema's own text."""
    if not isinstance(parsed.tree, tuple):
        return parsed.schema.text
    if is_serialized(parsed.schema.text):
        return parsed.schema.text
    file, types = parsed.tree
    return wire.encode_descriptor(file, types, name)
