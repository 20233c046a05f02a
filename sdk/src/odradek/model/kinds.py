"""The types of typed columns, as Spark's DDL writes them, and how a column may change. Pure.

    boolean  int  bigint  float  double  decimal(p,s)  string  binary  date  time  timestamp  timestamp_ntz
    array<T>  map<K,V>  struct<name: T, ...>

`timestamp` is a moment, `timestamp_ntz` a local time, both in microseconds. A name that is not letters, digits and
underscores stands in backticks. Files, Iceberg tables, queries and Spark get their types from these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

SCALARS = frozenset(
    "boolean int bigint float double string binary date time timestamp timestamp_ntz".split()  # noqa: SIM905
)
VALUE_RECIPE, VALUE_REST = "value_recipe", "value_rest"  # columns of files in which values are made again
RECORD_COLUMNS = frozenset(
    {"offset", "timestamp", "timestamptype", "key", "value", "headers", "batch", "partition", "topic"}
    | {VALUE_RECIPE, VALUE_REST}
)
"""Names, in lower case, that a column of the record has."""
_PRECISION_MAX = 38
_DEPTH_MAX = 16
_NAME_MAX = 100
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"\s*(?:([A-Za-z_][A-Za-z0-9_]*|\d+)|`([^`]+)`|([<>(),:]))")
_WIDER = {("int", "bigint"), ("float", "double")}  # what Iceberg turns into each other


@dataclass(frozen=True, slots=True)
class Kind:
    """A type.

    Attributes:
        inner: the element of an array; key and value of a map; the types of a struct's fields.
        names: of a struct's fields.
        precision, scale: of a decimal.
    """

    name: str
    inner: tuple[Kind, ...] = ()
    names: tuple[str, ...] = ()
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.name == "struct":
            fields = zip(self.names, self.inner, strict=True)
            return f"struct<{', '.join(f'{quoted(name)}: {field_type}' for name, field_type in fields)}>"
        return f"{self.name}<{', '.join(map(str, self.inner))}>" if self.inner else self.name

    @property
    def fields(self) -> dict[str, Kind]:
        """The fields of a struct, in order."""
        return dict(zip(self.names, self.inner, strict=True))


BOOLEAN, INT, BIGINT, FLOAT, DOUBLE = map(Kind, ("boolean", "int", "bigint", "float", "double"))
STRING, BINARY, DATE, TIME = map(Kind, ("string", "binary", "date", "time"))
TIMESTAMP, TIMESTAMP_NTZ = Kind("timestamp"), Kind("timestamp_ntz")


@dataclass(frozen=True, slots=True)
class Column:
    """A typed column: its name, and the field of the values that it shows."""

    name: str
    kind: Kind
    field: str


Fields = list[tuple[str, Kind]]


def decimal(precision: int, scale: int) -> Kind:
    """Return a decimal type. Raises ValueError for one that files do not have."""
    if not 0 < precision <= _PRECISION_MAX or not 0 <= scale <= precision:
        raise ValueError(f"decimal({precision},{scale}) is not 1 to {_PRECISION_MAX} digits")
    return Kind("decimal", precision=precision, scale=scale)


def struct(fields: Iterable[tuple[str, Kind]]) -> Kind:
    """Return a struct type."""
    pairs = list(fields)
    return Kind("struct", tuple(data_type for _, data_type in pairs), tuple(name for name, _ in pairs))


def is_name(name: str) -> bool:
    """Return True if a column or a field can have this name: paths in Parquet files separate by dots."""
    is_plain = not set(name) & set("`.,;\n\r\t\0") and name == name.strip()
    return 0 < len(name) <= _NAME_MAX and is_plain and is_utf8(name)


def are_distinct(names: Iterable[str]) -> bool:
    """Return True if an engine to which case says nothing tells all names of a struct's fields apart."""
    lower = [name.lower() for name in names]
    return len(set(lower)) == len(lower)


def is_utf8(text: str) -> bool:
    """Return False for a text with half a surrogate pair, which no file, engine or terminal takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def quoted(name: str) -> str:
    """Return a name as a text of types has it."""
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name}`"


def kind_of(text: str) -> Kind:
    """Parse one type. Raises ValueError."""
    parser = _Parser(text)
    parsed = parser.kind(0)
    parser.end()
    return parsed


def columns_of(text: str) -> tuple[tuple[str, Kind], ...]:
    """Parse `name type, name type`. Raises ValueError that names what is wrong."""
    parser = _Parser(text)
    columns: dict[str, Kind] = {}
    while not parser.is_done:
        if columns:
            parser.expect(",")
        name = parser.name()
        if name.lower() in map(str.lower, columns):
            raise ValueError(f"{name} is there twice")
        columns[name] = parser.kind(0)
    return tuple(columns.items())


def text_of(columns: Iterable[tuple[str, Kind]]) -> str:
    """Return what `columns_of` reads."""
    return ", ".join(f"{quoted(name)} {data_type}" for name, data_type in columns)


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, bool]] = []  # and whether it is a name in backticks
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"{text[at : at + 20]!r} is no type and no name")
            self._tokens.append((match[1] or match[2] or match[3], match[2] is not None))
            at = match.end()
        self._tokens.reverse()

    @property
    def is_done(self) -> bool:
        return not self._tokens

    def _next(self, wanted: str) -> tuple[str, bool]:
        if not self._tokens:
            raise ValueError(f"{wanted} is missing at the end")
        return self._tokens.pop()

    def expect(self, sign: str) -> None:
        token = self._next(repr(sign))
        if token != (sign, False):
            raise ValueError(f"{token[0]!r} stands where {sign!r} belongs")

    def end(self) -> None:
        if self._tokens:
            raise ValueError(f"{self._tokens[-1][0]!r} follows the type")

    def name(self) -> str:
        token, is_quoted = self._next("a name")
        if not is_name(token) or not (is_quoted or _PLAIN_NAME.fullmatch(token)):
            raise ValueError(f"{token!r} is no name of a column")
        return token

    def kind(self, depth: int) -> Kind:
        if depth > _DEPTH_MAX:
            raise ValueError(f"types are nested deeper than {_DEPTH_MAX}")
        name = self._next("a type")[0].lower()
        if name in SCALARS:
            return Kind(name)
        if name == "decimal":
            return self._decimal()
        if name not in ("array", "map", "struct"):
            raise ValueError(f"{name!r} is no type")
        self.expect("<")
        if name == "struct":
            parsed = self._struct(depth)
        else:
            inner = [self.kind(depth + 1)]
            if name == "map":
                self.expect(",")
                inner.append(self.kind(depth + 1))
            parsed = Kind(name, tuple(inner))
        self.expect(">")
        return parsed

    def _decimal(self) -> Kind:
        self.expect("(")
        precision = self._number()
        self.expect(",")
        scale = self._number()
        self.expect(")")
        return decimal(precision, scale)

    def _number(self) -> int:
        token, _ = self._next("a number")
        if not token.isdigit():
            raise ValueError(f"{token!r} is no number")
        return int(token)

    def _struct(self, depth: int) -> Kind:
        fields: dict[str, Kind] = {}
        while True:
            name = self.name()
            if not are_distinct([*fields, name]):
                raise ValueError(f"the field {name} is there twice, since case does not count")
            self.expect(":")
            fields[name] = self.kind(depth + 1)
            if not self._tokens or self._tokens[-1][0] != ",":
                return struct(fields.items())
            self.expect(",")


# --- changes ----------------------------------------------------------------------------------------------------------


def joined(old: Kind, new: Kind) -> Kind | None:
    """Return the type that a column of the old type gets to hold values of both; None if Iceberg has no such change."""
    if old == new or (new.name, old.name) in _WIDER:
        return old
    if (old.name, new.name) in _WIDER:
        return new
    if old.name != new.name:
        return None
    if old.name == "decimal":
        return replace(old, precision=max(old.precision, new.precision)) if old.scale == new.scale else None
    if old.name == "struct":
        fields = old.fields
        for name, data_type in new.fields.items():
            both = joined(fields[name], data_type) if name in fields else data_type
            if both is None:
                return None
            fields[name] = both
        return struct(fields.items()) if are_distinct(fields) else None
    if old.name == "map" and old.inner[0] != new.inner[0]:
        return None
    inner = [joined(one, other) for one, other in zip(old.inner, new.inner, strict=True)]
    return None if None in inner else replace(old, inner=tuple(part for part in inner if part is not None))


def can_become(old: Kind, new: Kind) -> bool:
    """Return True if a column of the old type is read as one of the new type."""
    return joined(old, new) == new


def columns_of_versions(versions: Iterable[tuple[int, Fields]]) -> tuple[Column, ...]:
    """Return the columns of the last of a subject's versions.

    They follow from all versions: a field that gets a wider type keeps its column, which gets that type. One that gets
    a type which its column cannot have becomes another column, `<name>_v<version>`.

    Args:
        versions: number and fields of each, oldest first.
    """
    columns: dict[str, Kind] = {}  # of every column so far
    column_of: dict[str, str] = {}  # by field
    fields: Fields = []
    for number, fields in versions:
        for field, data_type in fields:
            name = column_of.get(field) or _free(field, columns)
            both = joined(columns[name], data_type) if name in columns else data_type
            if both is None:
                name, both = _free(f"{field}_v{number}", columns), data_type
            column_of[field], columns[name] = name, both
    return tuple(Column(column_of[field], columns[column_of[field]], field) for field, _ in fields)


def _free(field: str, names: Iterable[str]) -> str:
    """Return a name for a field's column that neither a column of the record nor another one has."""
    taken = {name.lower() for name in names} | RECORD_COLUMNS
    name = field
    while name.lower() in taken:
        name = f"value_{name}"
    return name


def with_given(columns: Iterable[Column], declared: Iterable[tuple[str, Kind]]) -> tuple[Column, ...]:
    """Return columns with those that a configuration names, which are what it says."""
    columns_by_name = {column.name.lower(): column for column in columns}
    for name, data_type in declared:
        existing = columns_by_name.get(name.lower())
        columns_by_name[name.lower()] = Column(name, data_type, name if existing is None else existing.field)
    return tuple(columns_by_name.values())
