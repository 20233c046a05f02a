"""Loads a module with a user's own functions (functions/own.py), and makes them known to the planner."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from odradek.sql.conversions import converted
from odradek.sql.functions import FUNCTIONS
from odradek.sql.functions.aggregates import ordered
from odradek.sql.functions.in_python import PREFIX
from odradek.sql.functions.own import MARK, Declared
from odradek.sql.functions.signature import Function, Mismatch
from odradek.sql.parse import parse
from odradek.sql.position import SqlError
from odradek.sql.syntax import Create
from odradek.sql.types import Rendered, SqlType, resolve_type

FUNCTIONS_MODULE = "odradek.functions.module"
_OWN_PREFIX = f"{PREFIX}own_"


@dataclass(frozen=True, slots=True)
class Own:
    """A function that has been loaded."""

    kind: str
    takes: tuple[SqlType, ...]
    returns: SqlType
    by_row: bool
    code: Callable[..., Any]
    module: ModuleType


OWN: dict[str, Own] = {}  # by the name that Spark has for it


def load_functions(wanted: str) -> list[str]:
    """Load the functions of a module; a later one replaces another of its name. Return their names.

    Args:
        wanted: the path of a file, geo.py, or the name of a module that Python finds.

    Raises:
        SqlError: it cannot be loaded, or a function is declared wrongly.
    """
    module = _module(wanted)
    marked = [each for each in vars(module).values() if isinstance(getattr(each, MARK, None), Declared)]
    if not marked:
        raise SqlError(f"{wanted} has no functions: mark them with @scalar, @aggregate or @table of odradek.sql")
    found: list[tuple[str, Own]] = []
    for code in marked:
        declared: Declared = getattr(code, MARK)
        name = (declared.name or code.__name__).upper()
        known = FUNCTIONS.get(name)
        if known is not None and f"{_OWN_PREFIX}{name.lower()}" not in OWN:
            raise SqlError(f"{wanted}: {name} is a function of the language: give yours another name")
        takes = _types(declared.takes, f"{wanted}: {name}")
        [returns] = _types(declared.returns, f"{wanted}: {name}")
        if not takes:
            raise SqlError(f"{wanted}: {name} takes nothing: declare the types of its arguments")
        found.append((name, Own(declared.kind, takes, returns, declared.by_row, code, module)))
    for name, own in found:
        spark_name = f"{_OWN_PREFIX}{name.lower()}"
        OWN[spark_name] = own
        FUNCTIONS[name] = _function(name, spark_name, own)
    return [name for name, _ in found]


def _module(wanted: str) -> ModuleType:
    try:
        if not wanted.endswith(".py"):
            return importlib.import_module(wanted)
        path = Path(wanted)
        spec = importlib.util.spec_from_file_location(f"odradek_own_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    except Exception as error:  # whatever a user's module raises
        raise SqlError(f"module {wanted} cannot be loaded: {type(error).__name__}: {error}") from None


def _types(text: str, what: str) -> tuple[SqlType, ...]:
    depth, parts = 0, [""]
    for char in text:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(char, 0)
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    columns = ", ".join(f"C{number} {part}" for number, part in enumerate(parts) if part.strip())
    if not columns:
        return ()
    try:
        [statement] = parse(f"CREATE STREAM s ({columns}) WITH (KAFKA_TOPIC = 's');")
        assert isinstance(statement, Create)
        return tuple(resolve_type(each.type, {}) for each in statement.columns or ())
    except SqlError as error:
        raise SqlError(f"{what}: its types {text!r}: {error.problem}") from None


def _function(name: str, spark_name: str, own: Own) -> Function:
    def render(arguments: Sequence[Rendered]) -> Rendered:
        texts = []
        for number, (each, kind) in enumerate(zip(arguments, own.takes, strict=True)):
            if each.type is not None and not _accepts(kind, each.type):
                raise Mismatch(f"{name} takes {kind} here, not {each.type}", number)
            text = each.text if each.type == kind else converted(each.text, each.type, kind)
            texts.append(f"CAST({text} AS {kind.spark})")
        if own.kind != "aggregate":  # the type of a table function's call is that of its elements
            return Rendered(f"{spark_name}({', '.join(texts)})", own.returns)
        row = ", ".join(f"'c{number}', {text}" for number, text in enumerate(texts))
        return Rendered(f"{spark_name}({ordered(f'named_struct({row})')})", own.returns)

    return Function(name, len(own.takes), len(own.takes), render, kind=own.kind)


def _accepts(wanted: SqlType, given: SqlType) -> bool:
    return given == wanted or (given.is_number and wanted.is_number) or (
        given.name == wanted.name and (bool(given.inner) or given.name == "DECIMAL")
    )  # fmt: skip
