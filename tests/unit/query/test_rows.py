"""Rows of a query as plain data."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from decimal import Decimal

import pyarrow as pa
from odradek.operations.query.rows import names_of, numbers_of, rows_of


def test_a_sum_of_whole_numbers_is_a_number() -> None:
    """DuckDB sums BIGINT as HUGEINT, which Arrow has as a decimal: it was printed as text, and no chart took it."""
    table = pa.table({
        "total": pa.array([Decimal(5), None], pa.decimal128(38, 0)),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
    })  # fmt: skip
    rows = rows_of(table)
    assert rows == [{"total": 5, "price": "1.50"}, {"total": None, "price": None}]
    assert numbers_of(rows, names_of(table)) == ["total"]
