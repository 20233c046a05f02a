"""A .proto file as a value, parsed from its text (text.py) or its descriptor (wire.py). Pure.

`resolve` replaces the types of fields by scalars or full names with a leading dot (`.shop.Order`), found in the file,
in its imports, in the files that need no reference (model/protobuf_types.py), or among Google's own. `canonical` gives
one text for all files with the same meaning: comments, order of declarations, spelling of names and the form (text or
descriptor) do not matter. Options that change nothing on the wire are kept by name and count as content. Source:
Protocol Buffers language specifications, descriptor.proto.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate

from odradek.model.protobuf_types import BUILT_IN, BuiltInFile
from odradek.registry.errors import SchemaInvalid

SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9,
    "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
"""Numbers of FieldDescriptorProto.Type."""

GOOGLE = "google/protobuf/"
_NAME_LENGTH_MAX = 1_000  # of a full name: every field of the type repeats it
_GOOGLE_ENUMS = frozenset({".google.protobuf.NullValue", ".google.protobuf.Syntax"})


@dataclass(frozen=True, slots=True)
class Field:
    """A field; for a map, `type` is the type of the value and `key` that of the key."""

    name: str
    number: int
    type: str
    label: str = ""  # "", optional, required, repeated
    oneof: str = ""
    key: str = ""  # a scalar type if this is a map
    default: str = ""
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Enum:
    name: str
    values: tuple[tuple[str, int], ...]
    options: tuple[tuple[str, str], ...] = ()
    reserved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    name: str
    fields: tuple[Field, ...] = ()
    messages: tuple[Message, ...] = ()
    enums: tuple[Enum, ...] = ()
    oneofs: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()  # "5 to 8" and names in quotes
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class File:
    """A file; `others` has what is not part of messages (services, extensions): text, or hex from a descriptor."""

    syntax: str = "proto2"
    package: str = ""
    imports: tuple[tuple[str, str], ...] = ()  # (path, "" | public | weak)
    messages: tuple[Message, ...] = ()
    enums: tuple[Enum, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    others: tuple[str, ...] = ()


@dataclass
class Types:
    """Messages and enums by full name."""

    messages: dict[str, Message] = field(default_factory=dict)
    enums: dict[str, Enum] = field(default_factory=dict)

    def is_enum(self, name: str) -> bool:
        return name in self.enums or name in _GOOGLE_ENUMS

    def __contains__(self, name: str) -> bool:
        return name in self.messages or name in self.enums


def types_of(file: File) -> Types:
    """Return every type that the file defines. Raises SchemaInvalid if one is defined twice."""
    types = Types()
    prefix = f".{file.package}" if file.package else ""
    for name, declared in _walk(prefix, file.messages, file.enums):
        if len(name) > _NAME_LENGTH_MAX:
            raise SchemaInvalid(f"the name of a type must have at most {_NAME_LENGTH_MAX} characters with its package")
        if name in types:
            raise SchemaInvalid(f"{name[1:]} is defined twice")
        if isinstance(declared, Message):
            types.messages[name] = declared
        else:
            types.enums[name] = declared
    return types


def _walk(prefix: str, messages: tuple[Message, ...], enums: tuple[Enum, ...]) -> Iterator[tuple[str, Message | Enum]]:
    for enum in enums:
        yield f"{prefix}.{enum.name}", enum
    for message in messages:
        name = f"{prefix}.{message.name}"
        yield name, message
        yield from _walk(name, message.messages, message.enums)


def resolve(file: File, references: Mapping[str, File]) -> tuple[File, Types]:
    """Return the file with full names of types, and all types that are visible to it.

    Args:
        references: files by the path that imports use.

    Raises SchemaInvalid for an import or a type that does not exist, and for a message that protoc would refuse.
    """
    references = {**_built_in_files(), **references}
    types = types_of(file)
    for path in _imported(file, references):
        other = types_of(references[path])
        types.messages.update(other.messages)
        types.enums.update(other.enums)
    prefix = f".{file.package}" if file.package else ""
    messages = tuple(_resolved(message, prefix, types, file.syntax) for message in file.messages)
    for enum in (enum for enum in types_of(file).enums.values()):
        if not enum.values:
            raise SchemaInvalid(f"enum {enum.name} has no values")
        if file.syntax == "proto3" and enum.values[0][1] != 0:
            raise SchemaInvalid(f"the first value of enum {enum.name} must be 0 in proto3")
    return replace(file, messages=messages), types


@cache
def _built_in_files() -> dict[str, File]:
    """Return the files by path."""
    return {path: _built_in(built_in) for path, built_in in BUILT_IN.items()}


def _built_in(built_in: BuiltInFile) -> File:
    roots = tuple(_built_in_message(name, built_in) for name in built_in.messages if "." not in name)
    enums = tuple(
        Enum(name, tuple((value, number) for number, value in enumerate(values)))
        for name, values in built_in.enums.items()
    )
    imports = tuple((path, "") for path in built_in.imports)
    return File("proto3", built_in.package, imports, roots, enums)


def _built_in_message(name: str, built_in: BuiltInFile) -> Message:
    fields = tuple(
        Field(field.name, field.number, field.type, "repeated" if field.is_repeated else "", field.oneof, field.key)
        for field in built_in.messages[name]
    )
    inner = tuple(
        _built_in_message(message, built_in) for message in built_in.messages if message.rpartition(".")[0] == name
    )
    oneofs = tuple(dict.fromkeys(field.oneof for field in fields if field.oneof))
    return Message(name.rpartition(".")[2], fields, inner, oneofs=oneofs)


def _imported(file: File, references: Mapping[str, File]) -> list[str]:
    visible, waiting = [], [path for path, _ in file.imports]
    while waiting:
        path = waiting.pop()
        if path in visible or path.startswith(GOOGLE):
            continue
        if path not in references:
            raise SchemaInvalid(f"import {path!r} is not among the references")
        visible.append(path)
        waiting += [inner for inner, modifier in references[path].imports if modifier == "public"]
    return visible


def _resolved(message: Message, scope: str, types: Types, syntax: str) -> Message:
    full_name = f"{scope}.{message.name}"
    numbers: set[int] = set()
    names: set[str] = set()
    reserved = _Reserved(message.reserved)
    for declared in message.fields:
        if not 0 < declared.number < 1 << 29 or 19_000 <= declared.number < 20_000:
            raise SchemaInvalid(f"{full_name[1:]}.{declared.name}: {declared.number} is not a valid field number")
        if declared.number in numbers or declared.name in names:
            raise SchemaInvalid(
                f"{full_name[1:]}.{declared.name}: the name or the number {declared.number} is used twice"
            )
        if declared in reserved:
            raise SchemaInvalid(
                f"{full_name[1:]}.{declared.name}: the name or the number {declared.number} is reserved"
            )
        if declared.label == "required" and syntax == "proto3":
            raise SchemaInvalid(f"{full_name[1:]}.{declared.name}: proto3 has no required fields")
        numbers.add(declared.number)
        names.add(declared.name)
    fields = tuple(replace(field, type=_full_type(field.type, full_name, types)) for field in message.fields)
    inner = tuple(_resolved(message, full_name, types, syntax) for message in message.messages)
    return replace(message, fields=fields, messages=inner)


class _Reserved:
    """The names and numbers that a message reserves."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._names: set[str] = set()
        ranges: list[tuple[int, int]] = []
        for text in texts:
            if text.startswith('"'):
                self._names.add(text)
                continue
            first, _, last = text.partition(" to ")
            ranges.append((int(first), 1 << 29 if last == "max" else int(last or first)))
        self._ranges = sorted(ranges)
        self._ends = list(
            accumulate((last for _, last in self._ranges), max)
        )  # the highest end of all ranges up to each

    def __contains__(self, field: Field) -> bool:
        if json.dumps(field.name) in self._names:
            return True
        before = bisect_right(self._ranges, (field.number, 1 << 64))
        return before > 0 and self._ends[before - 1] >= field.number


def _full_type(name: str, scope: str, types: Types) -> str:
    if name in SCALARS:
        return name
    if name.startswith("."):
        if name in types or name.startswith(".google.protobuf."):
            return name
        raise SchemaInvalid(f"{scope[1:]}: the type {name[1:]} is not defined")
    while True:
        full = f"{scope}.{name}"
        if full in types:
            return full
        if not scope:
            break
        scope = scope.rpartition(".")[0]
    if name.startswith("google.protobuf."):
        return f".{name}"
    raise SchemaInvalid(f"the type {name} is neither defined nor imported")


def canonical(file: File) -> str:
    """Return one text for all files with the same meaning. The file must be resolved."""
    return json.dumps(
        {
            "syntax": file.syntax,
            "package": file.package,
            "imports": sorted(file.imports),
            "messages": [
                _message(message, file.syntax) for message in sorted(file.messages, key=lambda message: message.name)
            ],
            "enums": [_enum(enum) for enum in sorted(file.enums, key=lambda enum: enum.name)],
            "options": sorted(file.options),
            "others": sorted(file.others),
        },
        separators=(",", ":"),
    )


def _message(message: Message, syntax: str) -> object:
    return {
        "name": message.name,
        "fields": [
            [
                field.number,
                field.name,
                field.type,
                field.label,
                field.oneof,
                field.key,
                field.default,
                sorted(field.options),
            ]
            for field in sorted(message.fields, key=lambda field: field.number)
        ],
        "messages": [_message(nested, syntax) for nested in sorted(message.messages, key=lambda nested: nested.name)],
        "enums": [_enum(enum) for enum in sorted(message.enums, key=lambda enum: enum.name)],
        "reserved": sorted(message.reserved),
        "options": sorted(message.options),
    }


def _enum(enum: Enum) -> object:
    return [enum.name, sorted(enum.values, key=lambda value: (value[1], value[0])), sorted(enum.options),
            sorted(enum.reserved)]  # fmt: skip
