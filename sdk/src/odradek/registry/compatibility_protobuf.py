"""Protobuf compatibility: the reasons why a reader's .proto file cannot read a writer's messages, by the wire format.

    allowed     adding a message, an enum or a oneof; adding or removing a field or a value of an enum; renaming a
                field; changing the package; moving one field into a new oneof
    refused     removing a message; changing the kind of a field; adding or removing a required field; removing a field
                of a oneof or moving it out; moving a field into an existing oneof, or with others into a new one;
                changing the cardinality of a field other than string and bytes

Kinds that share an encoding are compatible: int32 int64 uint32 uint64 bool; sint32 sint64; string bytes; fixed32
sfixed32; fixed64 sfixed64. The message type of a field is compared by its name without the package. Confluent's
registry has the same rules. Pure; both files are resolved.
"""

from __future__ import annotations

from odradek.registry.protobuf.files import SCALARS, Field, File, Message, types_of

_KINDS = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "varint"),
    **dict.fromkeys(("sint32", "sint64"), "zigzag"),
    **dict.fromkeys(("string", "bytes"), "bytes"),
    **dict.fromkeys(("fixed32", "sfixed32"), "32 bit"),
    **dict.fromkeys(("fixed64", "sfixed64"), "64 bit"),
}


def unreadable(reader: File, writer: File) -> list[str]:
    """List the reasons why the reader cannot read the writer's records; empty if it can."""
    mine, theirs = _by_name(reader), _by_name(writer)
    problems = []
    for name, message in theirs.items():
        if name in mine:
            problems += _compare(mine[name], message, name, reader.package, writer.package)
        else:
            problems.append(f"message {name} was removed")
    return problems


def _by_name(file: File) -> dict[str, Message]:
    prefix = len(file.package) + 2 if file.package else 1
    return {name[prefix:]: message for name, message in types_of(file).messages.items()}


def _compare(reader: Message, writer: Message, at: str, r_package: str, w_package: str) -> list[str]:
    mine = {field.number: field for field in reader.fields}
    theirs = {field.number: field for field in writer.fields}
    problems = []
    for number in sorted(mine.keys() | theirs.keys()):
        r, w = mine.get(number), theirs.get(number)
        if w is None:
            if r is not None and r.label == "required":
                problems.append(f"{at}.{r.name}: a required field was added")
        elif r is None:
            if w.label == "required":
                problems.append(f"{at}.{w.name}: a required field was removed")
            elif w.oneof:
                problems.append(f"{at}.{w.name}: a field of the oneof {w.oneof} was removed")
        else:
            problems += _fields(r, w, f"{at}.{r.name}", r_package, w_package)
    return problems + _moved(reader, theirs, {field.oneof for field in writer.fields if field.oneof}, at)


def _moved(reader: Message, theirs: dict[int, Field], their_oneofs: set[str], at: str) -> list[str]:
    """List fields that were moved into a oneof, although a record may have several of them."""
    problems = []
    for oneof in reader.oneofs:
        moved = [field for field in reader.fields if field.oneof == oneof and field.number in theirs]
        alone = [field for field in moved if not theirs[field.number].oneof]
        if alone and (oneof in their_oneofs or len(alone) > 1):
            names = ", ".join(field.name for field in alone)
            problems.append(f"{at}: {names} moved into the oneof {oneof}, which holds only one field")
    return problems


def _fields(r: Field, w: Field, at: str, r_package: str, w_package: str) -> list[str]:
    problems = []
    if bool(r.key) != bool(w.key) or _kind(r.key, "") != _kind(w.key, ""):
        return [f"{at}: it became a map or is no longer one, or its key type changed"]
    if _kind(r.type, r_package) != _kind(w.type, w_package):
        problems.append(f"{at}: the type changed from {_title(w)} to {_title(r)}")
    is_bytes = _KINDS.get(r.type) == "bytes" and not r.key
    if (r.label == "repeated") != (w.label == "repeated") and not is_bytes:
        problems.append(f"{at}: the cardinality changed from {w.label or 'single'} to {r.label or 'single'}")
    if (r.label == "required") != (w.label == "required"):
        problems.append(f"{at}: the label 'required' was added or removed")
    if w.oneof and not r.oneof:
        problems.append(f"{at}: it was moved out of the oneof {w.oneof}")
    return problems


def _kind(name: str, package: str) -> str:
    if name in SCALARS or not name:
        return _KINDS.get(name, name)
    prefix = f".{package}."
    return name[len(prefix) :] if package and name.startswith(prefix) else name


def _title(field: Field) -> str:
    return field.type.removeprefix(".")
