"""File descriptors (descriptor.proto, in base64) to a `File` and back. Pure; all bytes give a file or SchemaInvalid.

Python clients register descriptors and ask for them (`format=serialized`), Java clients send text. Only the parts of a
`File` are read. Options that are not known by name here are kept as `#<number>` with their bytes in hex, and written
back. Source: descriptor.proto, "Encoding" of the Protocol Buffers documentation.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping

from odradek.model.protobuf_types import META_NUMBER
from odradek.registry.errors import SchemaInvalid
from odradek.registry.protobuf.files import SCALARS, Enum, Field, File, Message, Types
from odradek.registry.protobuf.meta import KINDS, Meta, kind_of, option_name
from odradek.registry.protobuf.meta import read as read_meta

_SCALAR_NAMES = {number: name for name, number in SCALARS.items()}
_MESSAGE, _ENUM, _GROUP = 11, 14, 10
_LABELS = {1: "optional", 2: "required", 3: "repeated"}
_MAX_FIELD = 1 << 29
_MAX_ENUM = (1 << 31) - 1
_DEPTH_MAX = 32

# Number, name, and the type: string, bool or number of an enum.
_FILE_OPTIONS = {
    1: "java_package", 8: "java_outer_classname", 10: "java_multiple_files", 11: "go_package",
    16: "cc_generic_services", 17: "java_generic_services", 18: "py_generic_services", 23: "deprecated",
    27: "java_string_check_utf8", 31: "cc_enable_arenas", 36: "objc_class_prefix", 37: "csharp_namespace",
    39: "swift_prefix", 40: "php_class_prefix", 41: "php_namespace", 44: "php_metadata_namespace", 45: "ruby_package",
}  # fmt: skip
_FIELD_OPTIONS = {2: "packed", 3: "deprecated", 5: "lazy"}
_MESSAGE_OPTIONS = {1: "message_set_wire_format", 2: "no_standard_descriptor_accessor", 3: "deprecated"}
_ENUM_OPTIONS = {2: "allow_alias", 3: "deprecated"}

_OPTIONS = dict(zip(KINDS, (_FILE_OPTIONS, _MESSAGE_OPTIONS, _FIELD_OPTIONS, _ENUM_OPTIONS), strict=True))

Options = tuple[tuple[str, str], ...]


def parse_descriptor(text: str) -> File:
    """Parse a descriptor in base64. Raises SchemaInvalid."""
    try:
        data = base64.b64decode(text.strip(), validate=True)
        return _file(data)
    except (binascii.Error, UnicodeDecodeError, IndexError, ValueError) as error:
        if isinstance(error, SchemaInvalid):
            raise
        raise SchemaInvalid(f"it is neither a .proto file nor a descriptor in base64: {error}") from None


def encode_descriptor(file: File, types: Types, name: str = "") -> str:
    """Encode a resolved file as a descriptor in base64."""
    out = _text(1, name) if name else b""
    out += _text(2, file.package) if file.package else b""
    for path, _ in file.imports:
        out += _text(3, path)
    scope = f".{file.package}" if file.package else ""
    out += b"".join(_bytes(4, _encode_message(message, types, file.syntax, scope)) for message in file.messages)
    out += b"".join(_bytes(5, _encode_enum(enum)) for enum in file.enums)
    out += _encode_options(8, file.options, _FILE_OPTIONS)
    for i, (_, modifier) in enumerate(file.imports):
        if modifier:
            out += _number(10 if modifier == "public" else 11, i)
    out += _text(12, file.syntax) if file.syntax != "proto2" else b""
    return base64.b64encode(out).decode()


# --- reading ----------------------------------------------------------------------------------------------------------


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise SchemaInvalid("a varint of a descriptor is too long")


def _parts(data: bytes) -> Iterator[tuple[int, int | bytes, bytes]]:
    """Yield (number, value, the bytes of both) of each field."""
    at = 0
    while at < len(data):
        begin = at
        tag, at = _varint(data, at)
        value: int | bytes
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
            case 1 | 5:
                size = 8 if tag & 7 == 1 else 4
                value, at = data[at : at + size], at + size
            case 2:
                size, at = _varint(data, at)
                value, at = data[at : at + size], at + size
            case _:
                raise SchemaInvalid("it is neither a .proto file nor a descriptor in base64")
        if at > len(data) or tag >> 3 == 0:
            raise SchemaInvalid("it is neither a .proto file nor a descriptor in base64")
        yield tag >> 3, value, data[begin:at]


class _Read:
    """A message's fields by number."""

    def __init__(self, data: int | bytes) -> None:
        if not isinstance(data, bytes):
            raise SchemaInvalid("it is neither a .proto file nor a descriptor in base64")
        self.values: dict[int, list[int | bytes]] = {}
        self.raw: list[tuple[int, int | bytes, bytes]] = list(_parts(data))
        for number, value, _ in self.raw:
            self.values.setdefault(number, []).append(value)

    def number(self, number: int, default: int = 0) -> int:
        value = self.values.get(number, [default])[-1]
        if not isinstance(value, int):
            raise SchemaInvalid("it is not a descriptor: expected a number")
        return value - (1 << 64) if value >= 1 << 63 else value

    def text(self, number: int) -> str:
        return self.texts(number)[-1] if number in self.values else ""

    def texts(self, number: int) -> list[str]:
        values = self.values.get(number, [])
        if not all(isinstance(value, bytes) for value in values):
            raise SchemaInvalid("it is not a descriptor: expected a string")
        return [value.decode() for value in values if isinstance(value, bytes)]

    def many(self, number: int) -> list[_Read]:
        return [_Read(value) for value in self.values.get(number, [])]


def _file(data: bytes) -> File:
    read = _Read(data)
    syntax = read.text(12) or "proto2"
    if syntax not in ("proto2", "proto3"):
        raise SchemaInvalid(f"syntax {syntax!r} is not proto2 or proto3")
    kinds = {**dict.fromkeys(_indexes(read, 10), "public"), **dict.fromkeys(_indexes(read, 11), "weak")}
    imports = tuple((path, kinds.get(i, "")) for i, path in enumerate(read.texts(3)))
    messages = tuple(_message(message_bytes, syntax, 0) for message_bytes in read.many(4))
    enums = tuple(_enum(enum_bytes) for enum_bytes in read.many(5))
    if not messages and not enums and not read.values:
        raise SchemaInvalid("it is empty")
    others = tuple(raw.hex() for number, _, raw in read.raw if number in (6, 7))
    options = _options(read, 8, _FILE_OPTIONS)
    return File(syntax, read.text(2), imports, messages, enums, options, others)


def _indexes(read: _Read, number: int) -> list[int]:
    return [value for value in read.values.get(number, []) if isinstance(value, int)]


def _message(read: _Read, syntax: str, depth: int) -> Message:
    if depth > _DEPTH_MAX:
        raise SchemaInvalid(f"messages are nested deeper than {_DEPTH_MAX}")
    maps: dict[str, tuple[str, str]] = {}
    messages = []
    for nested in read.many(3):
        if any(options.number(7) for options in nested.many(7)):  # map_entry
            key, value = (_field_type(inner) for inner in nested.many(2)[:2])
            maps[nested.text(1)] = key, value
        else:
            messages.append(_message(nested, syntax, depth + 1))
    oneofs = [oneof.text(1) for oneof in read.many(8)]
    fields = [_field(field_read, oneofs, maps, syntax) for field_read in read.many(2)]
    used = {field.oneof for field in fields}
    reserved = [_range(span.number(1), span.number(2) - 1, _MAX_FIELD - 1) for span in read.many(9)]
    reserved += [json.dumps(text) for text in read.texts(10)]
    options = _options(read, 7, _MESSAGE_OPTIONS)
    options += tuple(
        ("extensions", _range(span.number(1), span.number(2) - 1, _MAX_FIELD - 1)) for span in read.many(5)
    )
    return Message(
        read.text(1), tuple(fields), tuple(messages), tuple(_enum(enum_read) for enum_read in read.many(4)),
        tuple(oneof for oneof in oneofs if oneof in used), tuple(reserved), options,
    )  # fmt: skip


def _range(first: int, last: int, maximum: int) -> str:
    if last == first:
        return f"{first}"
    return f"{first} to max" if last >= maximum else f"{first} to {last}"


def _field_type(read: _Read) -> str:
    type_number = read.number(5)
    if type_number == _GROUP:
        raise SchemaInvalid("groups are not supported: use a message")
    name = _SCALAR_NAMES.get(type_number) or read.text(6)
    if not name:
        raise SchemaInvalid(f"{read.text(1)}: unknown field type {type_number}")
    return name


def _field(read: _Read, oneofs: list[str], maps: Mapping[str, tuple[str, str]], syntax: str) -> Field:
    field_type, key = _field_type(read), ""
    label, oneof = _LABELS.get(read.number(4), ""), ""
    if 9 in read.values:
        index = read.number(9)
        if not 0 <= index < len(oneofs):
            raise SchemaInvalid(f"{read.text(1)}: the oneof does not exist")
        oneof = oneofs[index]
    if read.number(17):  # proto3_optional: its oneof is synthetic
        oneof = ""
    elif oneof or (syntax == "proto3" and label == "optional"):
        label = ""
    if field_type.rpartition(".")[2] in maps and label == "repeated":
        key, field_type = maps[field_type.rpartition(".")[2]]
    default = read.text(7)
    if default and field_type in ("string", "bytes"):
        default = json.dumps(default)
    return Field(
        read.text(1), read.number(3), field_type, label, oneof, key, default, _options(read, 8, _FIELD_OPTIONS)
    )


def _enum(read: _Read) -> Enum:
    values = tuple((value.text(1), value.number(2)) for value in read.many(2))
    reserved = [_range(span.number(1), span.number(2), _MAX_ENUM) for span in read.many(4)]
    reserved += [json.dumps(text) for text in read.texts(5)]
    return Enum(read.text(1), values, _options(read, 3, _ENUM_OPTIONS), tuple(reserved))


def _options(read: _Read, number: int, names: Mapping[int, str]) -> Options:
    named = []
    meta: Meta | None = None
    for options in read.many(number):
        for key, value, raw in options.raw:
            if key in names:
                is_text = isinstance(value, bytes)
                text = json.dumps(value.decode()) if isinstance(value, bytes) else ("true" if value else "false")
                named.append((names[key], text if is_text or value in (0, 1) else str(value)))
            elif key == 9 and number == 8 and names is _FILE_OPTIONS:
                modes = {1: "SPEED", 2: "CODE_SIZE", 3: "LITE_RUNTIME"}
                named.append(("optimize_for", modes.get(value if isinstance(value, int) else 0, "SPEED")))
            elif key == META_NUMBER:
                meta = _add_meta(meta or Meta(), _Read(value))
            else:
                named.append((f"#{key}", raw.hex()))
    if meta is not None:
        [element] = [element for element, option_names in _OPTIONS.items() if option_names is names]
        named.append((option_name(element), meta.text()))
    return tuple(named)


def _add_meta(meta: Meta, read: _Read) -> Meta:
    """Return Confluent's option with what a further message of it says."""
    meta.doc = read.text(1) or meta.doc
    meta.params.update((param.text(1), param.text(2)) for param in read.many(2))
    meta.tags += read.texts(3)
    return meta


# --- writing ----------------------------------------------------------------------------------------------------------


def _encode_varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(number: int, value: int) -> bytes:
    return _encode_varint(number << 3) + _encode_varint(value)


def _bytes(number: int, value: bytes) -> bytes:
    return _encode_varint(number << 3 | 2) + _encode_varint(len(value)) + value


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _encode_message(message: Message, types: Types, syntax: str, scope: str) -> bytes:
    full_name = f"{scope}.{message.name}"
    made_up = [f"_{field.name}" for field in message.fields if syntax == "proto3" and field.label == "optional"]
    oneofs = [*message.oneofs, *made_up]  # the synthetic ones come last
    out = _text(1, message.name)
    entries = []
    for field in message.fields:
        field_type, label, oneof = field.type, field.label or "optional", field.oneof
        type_name = ""
        if field.key:
            entry = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
            entries.append(_encode_entry(entry, field, types))
            type_name, field_type = f"{full_name}.{entry}", ""
        body = _text(1, field.name) + _number(3, field.number)
        body += _number(4, {"optional": 1, "required": 2, "repeated": 3}[label])
        body += _encode_type(field_type, types) if field_type else _number(5, _MESSAGE) + _text(6, type_name)
        if field.default:
            body += _text(7, str(json.loads(field.default)) if field.default.startswith('"') else field.default)
        body += _encode_options(8, field.options, _FIELD_OPTIONS)
        if syntax == "proto3" and field.label == "optional":
            oneof = f"_{field.name}"
            body += _number(17, 1)
        if oneof:
            body += _number(9, oneofs.index(oneof))
        out += _bytes(2, body)
    out += b"".join(_bytes(3, _encode_message(nested, types, syntax, full_name)) for nested in message.messages)
    out += b"".join(_bytes(3, entry) for entry in entries)
    out += b"".join(_bytes(4, _encode_enum(enum)) for enum in message.enums)
    for name, text in message.options:
        if name == "extensions":
            first, last = _bounds(text, _MAX_FIELD - 1)
            out += _bytes(5, _number(1, first) + _number(2, last + 1))
    out += _encode_options(7, message.options, _MESSAGE_OPTIONS)
    out += b"".join(_bytes(8, _text(1, oneof)) for oneof in oneofs)
    for text in message.reserved:
        if text.startswith('"'):
            out += _text(10, str(json.loads(text)))
        else:
            first, last = _bounds(text, _MAX_FIELD - 1)
            out += _bytes(9, _number(1, first) + _number(2, last + 1))
    return out


def _bounds(text: str, maximum: int) -> tuple[int, int]:
    first, _, last = text.partition(" to ")
    return int(first), maximum if last == "max" else int(last or first)


def _encode_entry(name: str, field: Field, types: Types) -> bytes:
    key = _text(1, "key") + _number(3, 1) + _number(4, 1) + _encode_type(field.key, types)
    value = _text(1, "value") + _number(3, 2) + _number(4, 1) + _encode_type(field.type, types)
    return _text(1, name) + _bytes(2, key) + _bytes(2, value) + _bytes(7, _number(7, 1))


def _encode_type(name: str, types: Types) -> bytes:
    if name in SCALARS:
        return _number(5, SCALARS[name])
    return _number(5, _ENUM if types.is_enum(name) else _MESSAGE) + _text(6, name)


def _encode_enum(enum: Enum) -> bytes:
    out = _text(1, enum.name)
    out += b"".join(_bytes(2, _text(1, name) + _number(2, number)) for name, number in enum.values)
    out += _encode_options(3, enum.options, _ENUM_OPTIONS)
    for text in enum.reserved:
        if text.startswith('"'):
            out += _text(5, str(json.loads(text)))
        else:
            first, last = _bounds(text, _MAX_ENUM)
            out += _bytes(4, _number(1, first) + _number(2, last))
    return out


def _encode_options(number: int, options: Options, names: Mapping[int, str]) -> bytes:
    numbers = {name: key for key, name in names.items()}
    body = b""
    for name, text in options:
        if name.startswith("#"):
            body += bytes.fromhex(text)
        elif kind_of(name):
            body += _bytes(META_NUMBER, _encode_meta(text))
        elif name in numbers and text.startswith('"'):
            body += _text(numbers[name], str(json.loads(text)))
        elif name in numbers and text in ("true", "false"):
            body += _number(numbers[name], int(text == "true"))
        elif name == "optimize_for" and names is _FILE_OPTIONS:
            body += _number(9, {"CODE_SIZE": 2, "LITE_RUNTIME": 3}.get(text, 1))
    return _bytes(number, body) if body else b""


def _encode_meta(text: str) -> bytes:
    """Encode Confluent's option; nothing if its value is not one that Confluent knows."""
    try:
        meta = read_meta(text)
    except ValueError:
        return b""
    body = _text(1, meta.doc) if meta.doc else b""
    body += b"".join(_bytes(2, _text(1, key) + _text(2, value)) for key, value in sorted(meta.params.items()))
    return body + b"".join(_text(3, tag) for tag in meta.tags)
