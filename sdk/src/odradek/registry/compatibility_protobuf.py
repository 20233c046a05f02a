"""Can a reader's .proto file read what a writer's wrote? Rules of the wire format, as a list of what stands against it.

    fine        a message or enum more; a field more or less; another name of a field; a value more or less of an enum;
                a oneof more; another package; one field moved into a new oneof
    refused     a message that is gone; a field of another kind; a required field more or less; a field that leaves a
                oneof; one that is moved into an oneof that was there, or with others into a new one; another
                cardinality of a number, enum or bool

Kinds that share an encoding are one: int32 int64 uint32 uint64 bool; sint32 sint64; string bytes; fixed32 sfixed32;
fixed64 sfixed64. A message that a field uses counts by its name without the package. So Confluent's registry decides as
well. Pure; both files are resolved.
"""

from __future__ import annotations

from odradek.registry.protobuf_file import SCALARS, Field, File, Message, types_of

_KINDS = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "varint"),
    **dict.fromkeys(("sint32", "sint64"), "zigzag"),
    **dict.fromkeys(("string", "bytes"), "bytes"),
    **dict.fromkeys(("fixed32", "sfixed32"), "32 bit"),
    **dict.fromkeys(("fixed64", "sfixed64"), "64 bit"),
}


def unreadable(reader: File, writer: File) -> list[str]:
    """What keeps the reader from reading the writer's records; empty where nothing does."""
    mine, theirs = _by_name(reader), _by_name(writer)
    problems = []
    for name, message in theirs.items():
        if name in mine:
            problems += _compare(mine[name], message, name, reader.package, writer.package)
        else:
            problems.append(f"message {name} is gone")
    return problems


def _by_name(file: File) -> dict[str, Message]:
    prefix = len(file.package) + 2 if file.package else 1
    return {name[prefix:]: message for name, message in types_of(file).messages.items()}


def _compare(reader: Message, writer: Message, at: str, r_package: str, w_package: str) -> list[str]:
    mine = {each.number: each for each in reader.fields}
    theirs = {each.number: each for each in writer.fields}
    problems = []
    for number in sorted(mine.keys() | theirs.keys()):
        r, w = mine.get(number), theirs.get(number)
        if w is None:
            if r is not None and r.label == "required":
                problems.append(f"{at}.{r.name}: a required field is new")
        elif r is None:
            if w.label == "required":
                problems.append(f"{at}.{w.name}: a required field is gone")
            elif w.oneof:
                problems.append(f"{at}.{w.name}: a field of the oneof {w.oneof} is gone")
        else:
            problems += _fields(r, w, f"{at}.{r.name}", r_package, w_package)
    return problems + _moved(reader, theirs, {each.oneof for each in writer.fields if each.oneof}, at)


def _moved(reader: Message, theirs: dict[int, Field], their_oneofs: set[str], at: str) -> list[str]:
    """Fields that stood alone and are in an oneof now: a record may have more than one of them."""
    problems = []
    for oneof in reader.oneofs:
        moved = [each for each in reader.fields if each.oneof == oneof and each.number in theirs]
        alone = [each for each in moved if not theirs[each.number].oneof]
        if alone and (oneof in their_oneofs or len(alone) > 1):
            names = ", ".join(each.name for each in alone)
            problems.append(f"{at}: {names} moved into the oneof {oneof}, where only one field can be")
    return problems


def _fields(r: Field, w: Field, at: str, r_package: str, w_package: str) -> list[str]:
    problems = []
    if bool(r.key) != bool(w.key) or _kind(r.key, "") != _kind(w.key, ""):
        return [f"{at}: a map is none any more, or has other keys"]
    if _kind(r.type, r_package) != _kind(w.type, w_package):
        problems.append(f"{at}: the type {_title(w)} became {_title(r)}")
    is_bytes = _KINDS.get(r.type) == "bytes" and not r.key
    if (r.label == "repeated") != (w.label == "repeated") and not is_bytes:
        problems.append(f"{at}: it was {w.label or 'single'} and is {r.label or 'single'}")
    if (r.label == "required") != (w.label == "required"):
        problems.append(f"{at}: required changed")
    if w.oneof and not r.oneof:
        problems.append(f"{at}: it left the oneof {w.oneof}")
    return problems


def _kind(name: str, package: str) -> str:
    if name in SCALARS or not name:
        return _KINDS.get(name, name)
    prefix = f".{package}."
    return name[len(prefix) :] if package and name.startswith(prefix) else name


def _title(each: Field) -> str:
    return each.type.removeprefix(".")
