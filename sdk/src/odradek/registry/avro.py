"""Avro schemas: parsing into a tree of types, and the canonical text. Pure; every text gives a tree or SchemaInvalid.

    "string" | {"type": "record", "name": ..., "fields": [...]} | [union]   ->   AvroType

A named type (record, enum, fixed) is one node however often it is used, so a tree may have cycles. Names that are not
in the text come from references: schemas that were parsed before, into the same `names`. Unknown attributes and
logical types are kept in the canonical text and otherwise ignored. What Avro's Java library takes is taken, where it is
less strict than the specification: letters of any script in names, and any text as the default of an enum or a fixed.
Source: Avro 1.12 specification; its Schema class.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.registry.budget import Budget
from odradek.registry.errors import SchemaInvalid
from odradek.registry.json_text import load_json as load_any_json

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_DEPTH_MAX = 64
_NAME_LENGTH_MAX = 1_000  # of a full name: every use of a type repeats it


@dataclass(eq=False, slots=True)
class AvroField:
    name: str
    type: AvroType
    aliases: tuple[str, ...]
    has_default: bool


@dataclass(eq=False, slots=True)
class AvroType:
    """One node; `kind` decides which attributes apply."""

    kind: str  # a primitive, record, enum, fixed, array, map, union
    name: str = ""  # full name of a named type
    aliases: tuple[str, ...] = ()  # full names
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    has_default: bool = False  # of an enum
    size: int = 0
    element: AvroType | None = None  # of an array or map
    branches: list[AvroType] = field(default_factory=list)

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


Names = dict[str, AvroType]


def _is_name(text: str) -> bool:
    """Return True for letters, digits and underscores, not beginning with a digit: letters of 16 bits, as Java's."""
    kinds = [char == "_" or unicodedata.category(char) for char in text if char <= "\uffff"]
    starts = bool(kinds) and (kinds[0] is True or str(kinds[0]).startswith("L"))
    return (
        starts
        and len(kinds) == len(text)
        and all(category is True or category[0] == "L" or category == "Nd" for category in kinds)
    )


def parse(text: str, names: Names | None = None, budget: Budget | None = None) -> AvroType:
    """Parse a schema and add its named types to `names`. Raises SchemaInvalid."""
    return _Parser({} if names is None else names, budget or Budget()).parse(load_json(text), "", "", 0)


def load_json(text: str) -> Any:
    """Parse JSON; a bare name is read as if it were quoted (Avro's shorthand). Raises SchemaInvalid."""
    try:
        return load_any_json(text)
    except SchemaInvalid:
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise


def canonical(text: str) -> str:
    """Return the text without differences of whitespace, order of attributes, or primitives written as objects."""
    return json.dumps(_plain(load_json(text)), separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def normalized(text: str) -> str:
    """Return the canonical text with full names, so that the spelling of names does not matter either."""
    plain = _full_names(_plain(load_json(text)), "")
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _plain(data: Any) -> Any:
    if isinstance(data, list):
        return [_plain(element) for element in data]
    if not isinstance(data, dict):
        return data
    if set(data) == {"type"} and isinstance(data["type"], str | dict | list):
        return _plain(data["type"])
    out = dict(data)
    for key in ("type", "items", "values"):
        if key in out:
            out[key] = _plain(out[key])
    if isinstance(out.get("fields"), list):
        out["fields"] = [
            {**field, "type": _plain(field["type"])} if isinstance(field, dict) and "type" in field else field
            for field in out["fields"]
        ]
    return out


def _full_names(data: Any, namespace: str) -> Any:
    if isinstance(data, str):
        return data if data in PRIMITIVES else _full_name(data, namespace)
    if isinstance(data, list):
        return [_full_names(element, namespace) for element in data]
    if not isinstance(data, dict):
        return data
    out = dict(data)
    if out.get("type") in ("record", "error", "enum", "fixed"):
        out["name"] = _full_name(str(out.get("name", "")), str(out.pop("namespace", namespace)))
        namespace = out["name"].rpartition(".")[0]
        if isinstance(out.get("aliases"), list):
            out["aliases"] = sorted(_full_name(str(alias), namespace) for alias in out["aliases"])
        if isinstance(out.get("fields"), list):
            out["fields"] = [{**field, "type": _full_names(field["type"], namespace)} for field in out["fields"]]
    elif isinstance(out.get("type"), dict | list):
        out["type"] = _full_names(out["type"], namespace)
    for key in ("items", "values"):
        if key in out:
            out[key] = _full_names(out[key], namespace)
    return out


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


class _Parser:
    def __init__(self, names: Names, budget: Budget) -> None:
        self._names = names
        self._budget = budget

    def parse(self, data: Any, namespace: str, at: str, depth: int) -> AvroType:
        if depth > _DEPTH_MAX:
            raise SchemaInvalid(f"{at}: it is nested deeper than {_DEPTH_MAX}")
        self._budget.spend()
        if isinstance(data, str):
            return self._named(data, namespace, at)
        if isinstance(data, list):
            return self._union(data, namespace, at, depth)
        if not isinstance(data, dict):
            raise SchemaInvalid(f"{at or '/'}: a type must be a name, an object or a list, not {json.dumps(data)[:40]}")
        type_name = data.get("type")
        if isinstance(type_name, dict | list):
            return self.parse(type_name, namespace, at, depth + 1)
        if type_name in ("record", "error"):
            return self._record(data, namespace, at, depth)
        if type_name == "enum":
            return self._enum(data, namespace, at)
        if type_name == "fixed":
            size = data.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise SchemaInvalid(f"{at}: a fixed needs a size")
            return self._define(AvroType("fixed", size=size), data, namespace, at)
        if type_name in ("array", "map"):
            key = "items" if type_name == "array" else "values"
            if key not in data:
                raise SchemaInvalid(f"{at}: a {type_name} needs {key}")
            return AvroType(type_name, element=self.parse(data[key], namespace, f"{at}/{key}", depth + 1))
        if isinstance(type_name, str):
            return self._named(type_name, namespace, at)
        raise SchemaInvalid(f"{at or '/'}: the type is missing")

    def _named(self, name: str, namespace: str, at: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        named_type = self._names.get(_full_name(name, namespace)) or self._names.get(name)
        if named_type is None:
            raise SchemaInvalid(f"{at or '/'}: the type {name!r} is defined neither here nor in a reference")
        return named_type

    def _union(self, data: list[Any], namespace: str, at: str, depth: int) -> AvroType:
        branches = [self.parse(branch, namespace, f"{at}/{i}", depth + 1) for i, branch in enumerate(data)]
        branch_keys = set()
        for branch in branches:
            key = branch.name or branch.kind
            if branch.kind == "union":
                raise SchemaInvalid(f"{at}: a union must not contain a union")
            if key in branch_keys:
                raise SchemaInvalid(f"{at}: a union contains {key} twice")
            branch_keys.add(key)
        return AvroType("union", branches=branches)

    def _define(self, made: AvroType, data: Mapping[str, Any], namespace: str, at: str) -> AvroType:
        name, own = data.get("name"), data.get("namespace")
        if not isinstance(name, str) or not all(map(_is_name, name.split("."))):
            raise SchemaInvalid(f"{at}: {json.dumps(name)[:60]} is not a valid name of a {made.kind}")
        if own is not None and (not isinstance(own, str) or (own and not all(map(_is_name, own.split("."))))):
            raise SchemaInvalid(f"{at}: {json.dumps(own)[:60]} is not a valid namespace")
        made.name = _full_name(name, namespace if own is None else own)
        if len(made.name) > _NAME_LENGTH_MAX:
            raise SchemaInvalid(f"{at}: a name must have at most {_NAME_LENGTH_MAX} characters with its namespace")
        if made.name in PRIMITIVES or made.name in self._names:
            raise SchemaInvalid(f"{at}: {made.name} is defined twice")
        inside = made.name.rpartition(".")[0]
        made.aliases = tuple(_full_name(alias, inside) for alias in _strings(data.get("aliases", []), at, "aliases"))
        self._names[made.name] = made
        return made

    def _enum(self, data: Mapping[str, Any], namespace: str, at: str) -> AvroType:
        symbols = tuple(_strings(data.get("symbols"), at, "symbols"))
        if len(set(symbols)) < len(symbols) or not all(map(_is_name, symbols)):
            raise SchemaInvalid(f"{at}: the symbols of an enum must be distinct names")
        if "default" in data and data["default"] not in symbols:
            raise SchemaInvalid(f"{at}: the default of an enum must be one of its symbols")
        made = AvroType("enum", symbols=symbols, has_default="default" in data)
        return self._define(made, data, namespace, at)

    def _record(self, data: Mapping[str, Any], namespace: str, at: str, depth: int) -> AvroType:
        made = self._define(AvroType("record"), data, namespace, at)
        inside, fields = made.name.rpartition(".")[0], data.get("fields")
        if not isinstance(fields, list):
            raise SchemaInvalid(f"{at}: {made.name} has no list of fields")
        field_names: set[str] = set()
        defaults: list[tuple[AvroType, Any, str]] = []
        for i, declared in enumerate(fields):
            where = f"{at}/fields/{i}"
            if not isinstance(declared, dict) or "type" not in declared:
                raise SchemaInvalid(f"{where}: a field needs a name and a type")
            name = declared.get("name")
            if not isinstance(name, str) or not _is_name(name):
                raise SchemaInvalid(f"{where}: {json.dumps(name)[:60]} is not a valid name of a field")
            if name in field_names:
                raise SchemaInvalid(f"{where}: {made.name} has two fields {name!r}")
            field_names.add(name)
            field_type = self.parse(declared["type"], inside, f"{where}/type", depth + 1)
            aliases = tuple(_strings(declared.get("aliases", []), where, "aliases"))
            made.fields.append(AvroField(name, field_type, aliases, "default" in declared))
            if "default" in declared:
                defaults.append((field_type, declared["default"], where))
        for field_type, value, where in defaults:
            if not _fits(field_type, value, 0, self._budget):
                raise SchemaInvalid(
                    f"{where}: the default {json.dumps(value)[:60]} is not a valid {field_type.name or field_type.kind}"
                )
        return made


def _strings(data: Any, at: str, list_name: str) -> Iterable[str]:
    if not isinstance(data, list) or not all(isinstance(string, str) for string in data):
        raise SchemaInvalid(f"{at}: {list_name} must be a list of strings")
    return data


def _fits(avro_type: AvroType, value: Any, depth: int, budget: Budget) -> bool:
    """Return True if a JSON value is a valid default of the type, of any branch of a union (Avro 1.12)."""
    if depth > _DEPTH_MAX:
        return False
    budget.spend(1 + len(avro_type.symbols) // 64)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match avro_type.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bits = 31 if avro_type.kind == "int" else 63
            return is_number and isinstance(value, int) and -(2**bits) <= value < 2**bits
        case "float" | "double":
            return is_number or value in ("NaN", "Infinity", "-Infinity")
        case "bytes" | "string" | "fixed" | "enum":
            return isinstance(value, str)
        case "array":
            assert avro_type.element is not None
            element = avro_type.element
            return isinstance(value, list) and all(
                _fits(element, element_value, depth + 1, budget) for element_value in value
            )
        case "map":
            assert avro_type.element is not None
            element = avro_type.element
            return isinstance(value, dict) and all(
                _fits(element, element_value, depth + 1, budget) for element_value in value.values()
            )
        case "union":
            return any(_fits(branch, value, depth + 1, budget) for branch in avro_type.branches)
    if not isinstance(value, dict):
        return False
    return all(
        _fits(field.type, value[field.name], depth + 1, budget) if field.name in value else field.has_default
        for field in avro_type.fields
    )
