"""Definitions that the readers and writers of Protobuf share: the files that a schema may import without a reference
(model/protobuf_types.py), as descriptors, the values of their messages, and what a field is.

confluent.type.Decimal    Decimal      google.type.Date    date      google.type.TimeOfDay    time
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from importlib import import_module
from typing import Any

from odradek.extras import extra
from odradek.model import decimals
from odradek.model.protobuf_types import BUILT_IN, DATE, DECIMAL, META_NUMBER, TIME, BuiltInField


def built_in_descriptor(path: str) -> Any:
    """Return a file of BUILT_IN, or one of google/protobuf, as a FileDescriptorProto. Raises KeyError; MissingExtra."""
    with extra("protobuf"):
        pb2 = import_module("google.protobuf.descriptor_pb2")
    made = pb2.FileDescriptorProto()
    if path not in BUILT_IN:
        if not path.startswith("google/protobuf/"):
            raise KeyError(path)
        stem = path.removeprefix("google/protobuf/").removesuffix(".proto")
        try:
            import_module(f"google.protobuf.{stem}_pb2").DESCRIPTOR.CopyToProto(made)
        except ImportError:
            raise KeyError(path) from None
        return made
    built_in = BUILT_IN[path]
    made.name, made.package, made.syntax = path, built_in.package, "proto3"
    made.dependency.extend(built_in.imports)
    messages: dict[str, Any] = {}
    for name, fields in built_in.messages.items():
        outer, _, own = name.rpartition(".")
        message = (messages[outer].nested_type if outer else made.message_type).add(name=own)
        messages[name] = message
        for field in fields:
            _add_field(pb2, message, field, f".{built_in.package}.{name}")
    for name, values in built_in.enums.items():
        enum = made.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    for options, name in built_in.extends:
        made.extension.add(
            name=name, number=META_NUMBER, label=1, type=11, type_name=f".{built_in.package}.Meta",
            extendee=f".google.protobuf.{options}",
        )  # fmt: skip
    return made


def _add_field(pb2: Any, message: Any, built_in: BuiltInField, path: str) -> None:
    types = pb2.FieldDescriptorProto.Type
    field = message.field.add(
        name=built_in.name, number=built_in.number, label=3 if built_in.is_repeated or built_in.key else 1
    )
    if built_in.key:
        entry = message.nested_type.add(name=f"{built_in.name.capitalize()}Entry")
        entry.options.map_entry = True
        for number, (name, type_name) in enumerate((("key", built_in.key), ("value", built_in.type)), 1):
            entry.field.add(name=name, number=number, label=1, type=types.Value(f"TYPE_{type_name.upper()}"))
        field.type, field.type_name = types.Value("TYPE_MESSAGE"), f"{path}.{entry.name}"
    elif built_in.type.startswith("."):
        field.type, field.type_name = types.Value("TYPE_MESSAGE"), built_in.type
    else:
        field.type = types.Value(f"TYPE_{built_in.type.upper()}")
    if built_in.oneof:
        names = [oneof.name for oneof in message.oneof_decl]
        if built_in.oneof not in names:
            message.oneof_decl.add(name=built_in.oneof)
            names.append(built_in.oneof)
        field.oneof_index = names.index(built_in.oneof)


@cache
def _options_with_meta() -> Any:
    """Return the class of a message with Confluent's extension alone: options are read as it."""
    pool = import_module("google.protobuf.descriptor_pool").DescriptorPool()
    made = import_module("google.protobuf.descriptor_pb2").FileDescriptorProto(name="options.proto", syntax="proto3")
    meta = built_in_descriptor("confluent/meta.proto").message_type[0]
    made.package = "confluent"
    made.message_type.add().CopyFrom(meta)
    made.message_type.add(name="Options").field.add(
        name="meta", number=META_NUMBER, label=1, type=11, type_name=".confluent.Meta"
    )
    pool.Add(made)
    return import_module("google.protobuf.message_factory").GetMessageClass(
        pool.FindMessageTypeByName("confluent.Options")
    )


def is_repeated(field: Any) -> bool:
    """Return True for a field with several values. Descriptors of older releases of protobuf say it by `label`."""
    flag = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED) if flag is None else bool(flag)


def is_map(field: Any) -> bool:
    """Return True for a map of proto3, and for a list of entries as Confluent's converter writes a map."""
    entry_type = field.message_type
    if entry_type is None or not is_repeated(field):
        return False
    is_entry = entry_type.name.endswith("Entry") and [field.name for field in entry_type.fields] == ["key", "value"]
    return bool(entry_type.GetOptions().map_entry) or (is_entry and not any(map(is_repeated, entry_type.fields)))


def decimal_of(field: Any) -> tuple[int | None, int] | None:
    """Return the precision, if it is known, and the scale that a field's options declare for its Decimal.

    None for none. A map of proto3 has those of its values at its own field: text has no place for them within it.
    """
    params = _options_with_meta().FromString(field.GetOptions().SerializeToString()).meta.params
    try:
        return int(params["precision"]) if "precision" in params else None, int(params["scale"])
    except ValueError:
        return None


def decimal_options(precision: str | None, scale: str) -> bytes:
    """Return the options of a field that declare the precision and scale of its Decimal."""
    options = _options_with_meta()()
    options.meta.params["scale"] = scale
    if precision is not None:
        options.meta.params["precision"] = precision
    made: bytes = options.SerializeToString(deterministic=True)  # one schema has one descriptor
    return made


def _decimal(message: Any) -> Decimal:
    return decimals.of_bytes(message.value, message.scale)


def _time(message: Any) -> dt.time:
    return dt.time(message.hours, message.minutes, message.seconds, message.nanos // 1_000)


VALUES: dict[str, Callable[[Any], Any]] = {
    DECIMAL: _decimal,
    DATE: lambda message: dt.date(message.year, message.month, message.day),
    TIME: _time,
}
"""What a message of a type is in Python. They raise ValueError for one that is no date or time."""


def set_value(message: Any, value: Any) -> None:
    """Write a Decimal, date or time into the message that stands for it."""
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        number = int("".join(map(str, digits))) * (10 ** max(exponent, 0)) * (-1 if sign else 1)
        message.value = decimals.to_bytes(number)
        message.precision, message.scale = len(str(abs(number))), max(-exponent, 0)
    elif isinstance(value, dt.time):
        message.hours, message.minutes, message.seconds = value.hour, value.minute, value.second
        message.nanos = value.microsecond * 1_000
    else:
        message.year, message.month, message.day = value.year, value.month, value.day
