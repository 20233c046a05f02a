"""docs/reference.md is what the code says, and nothing in it is without a meaning."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from tools.reference import PAGE, page


def test_the_reference_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "make reference"


def test_everything_in_it_has_an_effect() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) > 200
    assert [row for row in rows if not row.rstrip("| ").rpartition(" | ")[2].strip()] == []
    assert [row for row in rows if row.endswith("|   |")] == []
