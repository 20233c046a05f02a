"""Typed columns and the odd values that topics of the world have, with the cell that each must be, everywhere."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import product
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from odradek.columnar.typed.arrow_kinds import arrow_type
from odradek.model.kinds import kind_of

from tests.support.spark.session import LiveLog

NAN, INF = float("nan"), float("inf")
MISFIT = object()
"""The value does not fit: all columns of its record are null."""


def _float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


_TEXTS = {
    '""': "",
    '" x "': " x ",
    '"NaN"': "NaN",
    '"a%_b"': "a%_b",
    '"a\\u0000b"': "a\0b",
    '"\\ud83d\\ude00"': "\U0001f600",
    '"\\ud800"': MISFIT,
    '"cut \\ud83d"': MISFIT,
    '"' + "a" * 15 + '\\ud7ff tail"': "a" * 15 + "\ud7ff tail",
    '"' + "\\udbff\\udfff" * 20 + '"': "\U0010ffff" * 20,
    '"' + "long" * 1200 + '"': "long" * 1200,
    "5": "5",
    "true": "true",
    '{"a": [1, "\\ud800"]}': '{"a": [1, "\\ud800"]}',
}
_DOUBLES = {
    "1.5": 1.5, "NaN": NAN, "Infinity": INF, "-Infinity": -INF, "-0.0": -0.0, "0": 0.0, "5e-324": 5e-324,
    "1.7976931348623157e308": 1.7976931348623157e308, "12345678901234567890": 12345678901234567890.0, '"1"': MISFIT,
}  # fmt: skip
_FLOATS = {
    "1.5": 1.5, "NaN": NAN, "Infinity": INF, "-Infinity": -INF, "-0.0": -0.0, "0.1": _float32(0.1), "1e39": MISFIT,
    "-1e39": MISFIT, "1e-46": 0.0, "16777217": 16777216.0, "3.4028234663852886e38": 3.4028234663852886e38,
    "1.00000017881393432617187499": _float32(1.00000017881393432617187499),
}  # fmt: skip
_DATES = {
    '"0001-01-01"': date(1, 1, 1), '"9999-12-31"': date(9999, 12, 31), '"1969-12-31"': date(1969, 12, 31),
    '"1582-10-10"': date(1582, 10, 10), '"2023-02-29"': MISFIT, '"10000-01-01"': MISFIT, "5": MISFIT,
}  # fmt: skip
_MOMENTS = {
    '"1970-01-01T00:00:00Z"': _utc(1970, 1, 1),
    '"0001-01-01T00:00:00Z"': _utc(1, 1, 1),
    '"9999-12-31T23:59:59.999999Z"': _utc(9999, 12, 31, 23, 59, 59, 999999),
    '"9999-12-31T23:59:59-05:00"': MISFIT,  # the year 10000
    '"0001-01-01T00:00:00+05:00"': MISFIT,
    '"1969-12-31T23:59:59.999999Z"': _utc(1969, 12, 31, 23, 59, 59, 999999),
    '"1582-10-10T00:00:00Z"': _utc(1582, 10, 10),
    '"2024-03-10T02:30:00-05:00"': _utc(2024, 3, 10, 7, 30),
}
_LOCAL = {
    '"1970-01-01T00:00:00"': datetime(1970, 1, 1),
    '"0001-01-01T00:00:00"': datetime(1, 1, 1),
    '"9999-12-31T23:59:59.999999"': datetime(9999, 12, 31, 23, 59, 59, 999999),
    '"1970-01-01T00:00:00Z"': MISFIT,
}
_MOST = "9" * 38
CASES: dict[str, dict[str, Any]] = {
    "boolean": {"true": True, "false": False, "1": MISFIT},
    "int": {
        "0": 0, "-0": 0, "-2147483648": -(2**31), "2147483647": 2**31 - 1, "2147483648": MISFIT, "1.0": MISFIT,
        '"1"': MISFIT,
    },
    "bigint": {
        "0": 0, "-9223372036854775808": -(2**63), "9223372036854775807": 2**63 - 1, "9223372036854775808": MISFIT,
        "1e3": MISFIT,
    },
    "float": _FLOATS,
    "double": _DOUBLES,
    "string": _TEXTS,
    "date": _DATES,
    "time": {
        '"00:00:00"': time(0), '"23:59:59.999999"': time(23, 59, 59, 999999), '"12:00:00+01:00"': MISFIT,
        '"25:00:00"': MISFIT,
    },
    "timestamp": _MOMENTS,
    "timestamp_ntz": _LOCAL,
    "decimal(5,2)": {
        '"1.23"': Decimal("1.23"), "1.23": Decimal("1.23"), '"999.99"': Decimal("999.99"), '"1000"': MISFIT,
        '"1.234"': MISFIT, '"-0.01"': Decimal("-0.01"), "0": Decimal("0.00"), '"1E2"': Decimal("100.00"),
        '"NaN"': MISFIT,
    },
    "decimal(18,0)": {'"-999999999999999999"': Decimal("-999999999999999999"), "7": Decimal(7)},
    "decimal(38,0)": {
        f'"{_MOST}"': Decimal(_MOST), f'"-{_MOST}"': Decimal("-" + _MOST), f'"1{"0" * 28}"': Decimal("1" + "0" * 28),
        f'"1{"0" * 38}"': MISFIT,
    },
    "decimal(38,10)": {
        '"1234567890123456789012345678.0123456789"': Decimal("1234567890123456789012345678.0123456789"),
        '"0.00000000001"': MISFIT,
    },
    "decimal(38,38)": {f'"0.{_MOST}"': Decimal(f"0.{_MOST}"), '"1"': MISFIT},
    "array<int>": {"[]": [], "[1, null]": [1, None], "[2147483648]": MISFIT},
    "array<double>": {"[NaN, 1.5]": [NAN, 1.5], "[-0.0]": [-0.0]},
    "array<string>": {'["", null]': ["", None], '["\\udc00"]': MISFIT},
    "array<array<int>>": {"[[1], [], null]": [[1], [], None]},
    "map<string,int>": {"{}": [], '{"a": 1, "b": null}': [("a", 1), ("b", None)], '{"\\ud800": 1}': MISFIT},
    "map<string,decimal(5,2)>": {'{"a": "1", "a": "1.00"}': [("a", Decimal("1.00"))]},
    "map<decimal(5,2),int>": {'{"1": 7, "1.0": 8}': [(Decimal("1.00"), 8)], '{"x": 1}': MISFIT},
    "map<string,double>": {'{"x": NaN}': [("x", NAN)]},
    "struct<a: int, b: string>": {
        '{"a": 1}': {"a": 1, "b": None}, "{}": {"a": None, "b": None}, '{"b": "\\ud800"}': MISFIT,
        '{"a": 1, "more": 2}': {"a": 1, "b": None},
    },
    "struct<x: double>": {'{"x": NaN}': {"x": NAN}, '{"x": 1.0}': {"x": 1.0}},
    "array<struct<a: int, d: float>>": {'[{"a": 1, "d": NaN}]': [{"a": 1, "d": NAN}], '[{"d": 1e39}]': MISFIT},
}  # fmt: skip


class OddValue(NamedTuple):
    """A record's value, and the cell of its column."""

    column: str
    json: str
    value: bytes
    cell: Any


SMALL = {
    "merge_rows_min": 1,
    "merge_delay_ms": 0,
    "table_group_bytes": 2_000,
    "head_bytes_max": 400,
    "paged_appends": 4,
}
PARTITIONS = (0, 1)  # a batch for each value; one batch for all
COLUMNS = {f"c{number}": type_name for number, type_name in enumerate(CASES)}
SCHEMA = ", ".join(f"{name} {type_name}" for name, type_name in {"i": "int", **COLUMNS}.items())
ODD_VALUES = [
    OddValue(name, text, b'{"i": %d, "%s": %s}' % (number, name.encode(), text.encode()), cell)
    for number, (name, text, cell) in enumerate(
        (name, text, cell)
        for name, type_name in COLUMNS.items()
        for text, cell in {**CASES[type_name], "null": None}.items()
    )
]


def expected_rows(first_offset: int) -> pa.Table:
    """Return the columns of the records of ODD_VALUES, from an offset."""
    columns: dict[str, pa.Array] = {"offset": pa.array(range(first_offset, first_offset + len(ODD_VALUES)), pa.int64())}
    columns["i"] = pa.array([None if odd.cell is MISFIT else i for i, odd in enumerate(ODD_VALUES)], pa.int32())
    for name, type_name in COLUMNS.items():
        cells = [odd.cell if odd.column == name and odd.cell is not MISFIT else None for odd in ODD_VALUES]
        columns[name] = pa.array(cells, arrow_type(kind_of(type_name)))
    return pa.table(columns)


def fill(log: LiveLog, *, in_files: bool = True, value_bytes: str = "true") -> None:
    """Create the topic `t` with ODD_VALUES at the beginning of both partitions, in files of a table or in the tail."""
    configs = {
        "odradek.table.enable": "true",
        "odradek.table.segment.bytes": "8000",
        "odradek.table.iceberg.enable": "true",
        "odradek.table.schema": SCHEMA,
        "odradek.table.value.bytes": value_bytes,
        "retention.ms": "-1",
    }
    log.create("t", len(PARTITIONS), **configs)
    for odd in ODD_VALUES:
        log.produce("t", 0, [(b"k", odd.value)])
    log.produce("t", 1, [(b"k", odd.value) for odd in ODD_VALUES])
    if in_files:
        for number, _ in product(PARTITIONS, range(20)):
            log.produce("t", number, [(b"pad", b"x" * 900)])
        report = log._run(log.engine.maintenance.run())
        assert report.failures == []
        assert not report.done["table_segments_refused"]
        assert report.done["table_values_misfit"] >= 2 * sum(odd.cell is MISFIT for odd in ODD_VALUES)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return offset, number and cells of each row, so that equal ones compare equal."""
    names = ["offset", "i", *COLUMNS]
    return [tuple(plain(row[name]) for name in names) for row in table.select(names).to_pylist()]


def own(table: pa.Table, partition: int) -> pa.Table:
    """Return the rows of ODD_VALUES in a partition."""
    return table.filter(pc.equal(table["partition"], partition)).sort_by("offset").slice(0, len(ODD_VALUES))


def described(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """Return the values whose rows are not as expected."""
    return [
        f"{COLUMNS[ODD_VALUES[number].column]} {ODD_VALUES[number].json[:40]}: {row} != {wanted}"
        for number, (row, wanted) in enumerate(zip(rows, rows_of(expected_rows(0)), strict=True))
        if row != wanted
    ]


def comparable(name: str) -> list[Any]:
    """Return the cells of a column that a literal can be compared with."""
    cells = [odd.cell for odd in ODD_VALUES if odd.column == name and odd.cell is not MISFIT and odd.cell is not None]
    return [cell for cell in cells if not (isinstance(cell, str) and ("\0" in cell or len(cell) > 50))]


def plain(cell: Any) -> Any:
    """Return a cell so that equal ones compare equal: NaN is NaN, 0.0 is not -0.0, a map its pairs."""
    if isinstance(cell, float):
        return "NaN" if math.isnan(cell) else repr(cell)
    if isinstance(cell, dict):
        return {name: plain(member) for name, member in cell.items()}
    if isinstance(cell, list | tuple):
        return [plain(element) for element in cell]
    return cell.astimezone(UTC) if isinstance(cell, datetime) and cell.tzinfo is not None else cell
