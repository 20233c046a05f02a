"""The files that a schema may import without a reference (model/protobuf_types.py), as the registry's own values."""

from __future__ import annotations

from functools import cache

from odradek.model.protobuf_types import BUILT_IN, BuiltInFile
from odradek.registry.protobuf_file import Enum, Field, File, Message


@cache
def built_in_files() -> dict[str, File]:
    """Return the files by path."""
    return {path: _file(each) for path, each in BUILT_IN.items()}


def _file(given: BuiltInFile) -> File:
    roots = tuple(_message(name, given) for name in given.messages if "." not in name)
    enums = tuple(
        Enum(name, tuple((value, number) for number, value in enumerate(values)))
        for name, values in given.enums.items()
    )
    imports = tuple((path, "") for path in given.imports)
    return File("proto3", given.package, imports, roots, enums)


def _message(name: str, given: BuiltInFile) -> Message:
    fields = tuple(
        Field(each.name, each.number, each.type, "repeated" if each.is_repeated else "", each.oneof, each.key)
        for each in given.messages[name]
    )
    inner = tuple(_message(each, given) for each in given.messages if each.rpartition(".")[0] == name)
    oneofs = tuple(dict.fromkeys(each.oneof for each in fields if each.oneof))
    return Message(name.rpartition(".")[2], fields, inner, oneofs=oneofs)
