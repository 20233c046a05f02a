"""Sets of GTIDs, in MySQL's form and in MariaDB's."""

from __future__ import annotations

import pytest
from odradek.connect.connectors.cdc.mysql.gtids import gtids

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "19d69c1e-ae97-4b8c-a1ef-9e12ba966457"


@pytest.mark.parametrize(
    ("begin", "added", "end"),
    [
        ("", [f"{A}:1"], f"{A}:1"),
        (f"{A}:1-5", [f"{A}:6"], f"{A}:1-6"),
        (f"{A}:1-5:8-9", [f"{A}:7", f"{A}:6"], f"{A}:1-9"),
        (f"{A.upper()}:1-5,\n{B}:3", [f"{B}:5", f"{B}:3", f"{B}:1"], f"{B}:1:3:5,{A}:1-5"),
    ],
)
def test_mysqls_sets_grow_and_join_intervals(begin: str, added: list[str], end: str) -> None:
    found = gtids(begin, is_mariadb=False)
    assert found is not None
    for each in added:
        found.add(each)
        assert found.has(each)
    assert str(found) == end
    assert found.covers(begin)
    assert not found.has(f"{A}:99")


def test_mysqls_sets_cover_others() -> None:
    found = gtids(f"{A}:1-5:7", is_mariadb=False)
    assert found is not None
    assert found.covers(f"{A}:2-4:7")
    assert not found.covers(f"{A}:5-6")
    assert not found.covers(f"{B}:1")
    assert gtids(f"{A}:1-5:tag:1-2", is_mariadb=False) is None, "tags are not understood"


def test_mariadbs_positions_have_the_last_of_each_domain() -> None:
    found = gtids("0-1-15,7-2-3", is_mariadb=True)
    assert found is not None
    assert (found.has("0-1-15"), found.has("0-9-14"), found.has("0-1-16"), found.has("3-1-1")) == (
        True, True, False, False,
    )  # fmt: skip
    found.add("0-9-16")
    found.add("7-2-1")
    assert str(found) == "0-9-16,7-2-3"
    assert found.covers("0-1-16,7-2-2")
    assert not found.covers("0-1-16,8-1-1")
    assert gtids("nonsense", is_mariadb=True) is None
