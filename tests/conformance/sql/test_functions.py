"""Every line of functions/*.txt: an expression, its value as JSON, and its type. One query evaluates sixty.

All but operators.txt are slow, because each query costs Spark some seconds. `make sql-conformance` runs all.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.sql.runner import Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent / "functions"
_LINE = re.compile(r"(?P<expression>.+) => (?P<value>.+) : (?P<type>[A-Z].*)")
_COLUMN = re.compile(r"(?P<name>[A-Z]) (?P<type>[A-Z][A-Z0-9_<>(), ]*?) = (?P<value>.+?)(?:\.$|, (?=[A-Z] [A-Z]))")
_COLUMNS_MAX = 60  # expressions of one query: more make Spark slower than another query


@dataclass(frozen=True)
class Case:
    expression: str
    value: Any
    type: str


@dataclass(frozen=True)
class Sheet:
    """A file of cases over one row."""

    columns: dict[str, str]
    row: dict[str, Any]
    cases: tuple[Case, ...]


def parsed(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


@cache
def sheet(name: str) -> Sheet:
    head, *lines = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    columns = {each["name"]: each for each in _COLUMN.finditer(head)}
    cases = []
    for line in lines:
        found = _LINE.fullmatch(line)
        assert found, f"{name}: {line}"
        cases.append(Case(found["expression"], parsed(found["value"]), found["type"]))
    return Sheet(
        {key: each["type"] for key, each in columns.items()},
        {key: parsed(each["value"]) for key, each in columns.items()},
        tuple(cases),
    )


def signed(value: Any) -> Any:
    """Return a value in which -0.0 is not 0.0."""
    if isinstance(value, dict):
        return {name: signed(each) for name, each in value.items()}
    if isinstance(value, list):
        return [signed(each) for each in value]
    return "-0" if isinstance(value, Decimal) and value.is_zero() and value.is_signed() else value


SHEETS = sorted(each.stem for each in FOLDER.glob("*.txt"))
CASES = [(name, number) for name in SHEETS for number in range(len(sheet(name).cases))]


@pytest.fixture(scope="module")
def results(spark: SparkSession) -> dict[tuple[str, int], tuple[Any, str]]:
    """The value and the type of each case, by query."""
    return {}


def evaluate(spark: SparkSession, name: str, first: int) -> dict[tuple[str, int], tuple[Any, str]]:
    it = sheet(name)
    numbers = range(first, min(first + _COLUMNS_MAX, len(it.cases)))
    declared = ", ".join(f"{column} {kind}" for column, kind in it.columns.items()) or "UNUSED INT"
    items = ", ".join(f"{it.cases[number].expression} AS C{number}" for number in numbers)
    script = f"""
        CREATE STREAM given ({declared}) WITH (KAFKA_TOPIC = 'given', VALUE_FORMAT = 'JSON');
        CREATE STREAM found AS SELECT {items} FROM given;
    """
    outcome = Runner(spark).run(script, [{"topic": "given", "value": it.row, "timestamp": 0}])
    [record] = outcome.topics["FOUND"]
    values = json.loads(record.value or b"", parse_float=Decimal)
    types = {each.name: str(each.type) for each in outcome.planner.catalog.sources["FOUND"].columns}
    return {(name, number): (values[f"C{number}"], types[f"C{number}"]) for number in numbers}


def parameters() -> list[Any]:
    return [
        pytest.param(
            name, number, id=f"{name}: {sheet(name).cases[number].expression}",
            marks=() if name == "operators" else pytest.mark.slow,
        )
        for name, number in CASES
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "number"), parameters())
def test_function(spark: SparkSession, results: dict[Any, Any], name: str, number: int) -> None:
    if (name, number) not in results:
        results.update(evaluate(spark, name, number - number % _COLUMNS_MAX))
    case = sheet(name).cases[number]
    value, kind = results[name, number]
    assert signed(value) == signed(case.value)
    assert kind == case.type
