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
    found = Types()
    prefix = f".{file.package}" if file.package else ""
    for name, kind in _walk(prefix, file.messages, file.enums):
        if len(name) > _NAME_LENGTH_MAX:
            raise SchemaInvalid(f"the name of a type must have at most {_NAME_LENGTH_MAX} characters with its package")
        if name in found:
            raise SchemaInvalid(f"{name[1:]} is defined twice")
        if isinstance(kind, Message):
            found.messages[name] = kind
        else:
            found.enums[name] = kind
    return found


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
    seen = types_of(file)
    for path in _imported(file, references):
        other = types_of(references[path])
        seen.messages.update(other.messages)
        seen.enums.update(other.enums)
    prefix = f".{file.package}" if file.package else ""
    messages = tuple(_resolved(message, prefix, seen, file.syntax) for message in file.messages)
    for enum in (each for each in types_of(file).enums.values()):
        if not enum.values:
            raise SchemaInvalid(f"enum {enum.name} has no values")
        if file.syntax == "proto3" and enum.values[0][1] != 0:
            raise SchemaInvalid(f"the first value of enum {enum.name} must be 0 in proto3")
    return replace(file, messages=messages), seen


@cache
def _built_in_files() -> dict[str, File]:
    """Return the files by path."""
    return {path: _built_in(each) for path, each in BUILT_IN.items()}


def _built_in(given: BuiltInFile) -> File:
    roots = tuple(_built_in_message(name, given) for name in given.messages if "." not in name)
    enums = tuple(
        Enum(name, tuple((value, number) for number, value in enumerate(values)))
        for name, values in given.enums.items()
    )
    imports = tuple((path, "") for path in given.imports)
    return File("proto3", given.package, imports, roots, enums)


def _built_in_message(name: str, given: BuiltInFile) -> Message:
    fields = tuple(
        Field(each.name, each.number, each.type, "repeated" if each.is_repeated else "", each.oneof, each.key)
        for each in given.messages[name]
    )
    inner = tuple(_built_in_message(each, given) for each in given.messages if each.rpartition(".")[0] == name)
    oneofs = tuple(dict.fromkeys(each.oneof for each in fields if each.oneof))
    return Message(name.rpartition(".")[2], fields, inner, oneofs=oneofs)


def _imported(file: File, references: Mapping[str, File]) -> list[str]:
    found, waiting = [], [path for path, _ in file.imports]
    while waiting:
        path = waiting.pop()
        if path in found or path.startswith(GOOGLE):
            continue
        if path not in references:
            raise SchemaInvalid(f"import {path!r} is not among the references")
        found.append(path)
        waiting += [inner for inner, kind in references[path].imports if kind == "public"]
    return found


def _resolved(message: Message, scope: str, seen: Types, syntax: str) -> Message:
    here = f"{scope}.{message.name}"
    numbers: set[int] = set()
    names: set[str] = set()
    reserved = _Reserved(message.reserved)
    for each in message.fields:
        if not 0 < each.number < 1 << 29 or 19_000 <= each.number < 20_000:
            raise SchemaInvalid(f"{here[1:]}.{each.name}: {each.number} is not a valid field number")
        if each.number in numbers or each.name in names:
            raise SchemaInvalid(f"{here[1:]}.{each.name}: the name or the number {each.number} is used twice")
        if each in reserved:
            raise SchemaInvalid(f"{here[1:]}.{each.name}: the name or the number {each.number} is reserved")
        if each.label == "required" and syntax == "proto3":
            raise SchemaInvalid(f"{here[1:]}.{each.name}: proto3 has no required fields")
        numbers.add(each.number)
        names.add(each.name)
    fields = tuple(replace(each, type=_full_type(each.type, here, seen)) for each in message.fields)
    inner = tuple(_resolved(each, here, seen, syntax) for each in message.messages)
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

    def __contains__(self, each: Field) -> bool:
        if json.dumps(each.name) in self._names:
            return True
        before = bisect_right(self._ranges, (each.number, 1 << 64))
        return before > 0 and self._ends[before - 1] >= each.number


def _full_type(name: str, scope: str, seen: Types) -> str:
    if name in SCALARS:
        return name
    if name.startswith("."):
        if name in seen or name.startswith(".google.protobuf."):
            return name
        raise SchemaInvalid(f"{scope[1:]}: the type {name[1:]} is not defined")
    while True:
        full = f"{scope}.{name}"
        if full in seen:
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
            "messages": [_message(each, file.syntax) for each in sorted(file.messages, key=lambda each: each.name)],
            "enums": [_enum(each) for each in sorted(file.enums, key=lambda each: each.name)],
            "options": sorted(file.options),
            "others": sorted(file.others),
        },
        separators=(",", ":"),
    )


def _message(message: Message, syntax: str) -> object:
    return {
        "name": message.name,
        "fields": [
            [each.number, each.name, each.type, each.label, each.oneof, each.key, each.default, sorted(each.options)]
            for each in sorted(message.fields, key=lambda each: each.number)
        ],
        "messages": [_message(each, syntax) for each in sorted(message.messages, key=lambda each: each.name)],
        "enums": [_enum(each) for each in sorted(message.enums, key=lambda each: each.name)],
        "reserved": sorted(message.reserved),
        "options": sorted(message.options),
    }


def _enum(enum: Enum) -> object:
    return [enum.name, sorted(enum.values, key=lambda value: (value[1], value[0])), sorted(enum.options),
            sorted(enum.reserved)]  # fmt: skip
