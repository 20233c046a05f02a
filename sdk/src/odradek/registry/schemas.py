"""What a schema of any language is to the registry: parsed with its references, its canonical form, its GUID. Pure.

Two texts with one canonical form are one schema and have one id, under whatever subjects. The GUID is the first half of
the SHA-256 of language, canonical form and references: it names a schema without a registry, and it is the key under
which registrations of one schema meet.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from odradek.registry import avro, json_schema, protobuf_file, protobuf_wire
from odradek.registry.avro import AvroType
from odradek.registry.budget import Budget
from odradek.registry.errors import SchemaInvalid, invalid_schema
from odradek.registry.protobuf_file import File, Types
from odradek.registry.protobuf_text import parse_text

Kind = Literal["AVRO", "JSON", "PROTOBUF"]
KINDS: tuple[Kind, ...] = ("JSON", "PROTOBUF", "AVRO")


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one needs: `name` is what its text calls it."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as it is registered."""

    kind: Kind
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class ReferencedText:
    """A schema that is referred to, directly or not, under the name that the referring text uses."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """A schema that is understood."""

    schema: Schema
    tree: AvroType | json_schema.Document | tuple[File, Types]
    canonical: str

    @property
    def guid(self) -> UUID:
        references = sorted((each.name, each.subject, each.version) for each in self.schema.references)
        digest = hashlib.sha256(json.dumps([self.schema.kind, self.canonical, references]).encode()).digest()
        return UUID(bytes=digest[:16])


def parse(schema: Schema, references: Sequence[ReferencedText], budget: Budget | None = None) -> Parsed:
    """Understand a schema. Raises RegistryError(42201) that says what is wrong with it.

    Args:
        references: what it refers to and what those refer to, each after what it needs itself.
        budget: for all of it.
    """
    budget = budget or Budget()
    try:
        schema.text.encode()
        if schema.kind == "AVRO":
            return _parse_avro(schema, references, budget)
        if schema.kind == "JSON":
            document = json_schema.Document(
                json_schema.load(schema.text, budget), {each.name: each.text for each in references}, budget
            )
            document.check_refs()
            return Parsed(schema, document, json_schema.canonical(schema.text))
        files = {each.name: parse_proto(each.text) for each in references}
        file, types = protobuf_file.resolve(parse_proto(schema.text), files)
        return Parsed(schema, (file, types), protobuf_file.canonical(file))
    except SchemaInvalid as error:
        raise invalid_schema(_printable(str(error))) from None
    except UnicodeEncodeError:
        raise invalid_schema("it has half of a surrogate pair, which UTF-8 cannot write") from None
    except RecursionError:
        raise invalid_schema("it is nested too deeply") from None


def _printable(message: str) -> str:
    """A message that can be sent, whatever of the schema is in it."""
    return message[:2_000].encode(errors="backslashreplace").decode()


def _parse_avro(schema: Schema, references: Sequence[ReferencedText], budget: Budget) -> Parsed:
    names: avro.Names = {}
    for text in dict.fromkeys(each.text for each in references):  # one schema may be referred to by several names
        avro.parse(text, names, budget)
    return Parsed(schema, avro.parse(schema.text, names, budget), avro.canonical(schema.text))


def normalized(schema: Schema, references: Sequence[ReferencedText], budget: Budget | None = None) -> Schema:
    """The schema in the one spelling of its canonical form (`normalize=true`). Raises RegistryError(42201)."""
    parsed = parse(schema, references, budget)
    if schema.kind == "AVRO":
        return Schema("AVRO", avro.normalized(schema.text), schema.references)
    if schema.kind == "JSON":
        return Schema("JSON", parsed.canonical, schema.references)
    return schema  # its canonical form is that already: order and spelling do not count


def parse_proto(text: str) -> File:
    """A .proto file from its text or its descriptor in base64. Raises SchemaInvalid."""
    return protobuf_wire.parse_descriptor(text) if is_serialized(text) else parse_text(text)


def is_serialized(text: str) -> bool:
    """Whether a .proto file is here as its descriptor in base64, not as text."""
    stripped = text.strip()
    return bool(stripped) and not any(sign in stripped for sign in ' ;{}"')


def serialized(parsed: Parsed, name: str = "") -> str:
    """The text for `format=serialized`: of a .proto file its descriptor, of others the text itself."""
    if not isinstance(parsed.tree, tuple):
        return parsed.schema.text
    if is_serialized(parsed.schema.text):
        return parsed.schema.text
    file, types = parsed.tree
    return protobuf_wire.encode_descriptor(file, types, name)
