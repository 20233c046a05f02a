"""Types of typed columns: their text, and what a column may become."""

from __future__ import annotations

import pytest
from odradek.columnar.typed.arrow_kinds import arrow_type, kind_of_arrow
from odradek.model.kinds import Column, can_become, columns_of, columns_of_versions, joined, kind_of, text_of


def test_texts_come_back() -> None:
    text = "a bigint, `b-c` decimal(10, 2), d array<struct<x: int, `y z`: map<string, date>>>"
    columns = columns_of(text)
    assert columns_of(text_of(columns)) == columns
    assert [kind_of_arrow(arrow_type(data_type)) for _, data_type in columns] == [data_type for _, data_type in columns]


@pytest.mark.parametrize(
    "text",
    ["a", "a bigint b", "a bigint, A int", "a array<>", "`a.b` int", "a decimal(39,0)", "a struct<b int>", "1 int"],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        columns_of(text)


@pytest.mark.parametrize(
    ("old", "new", "both"),
    [
        ("int", "bigint", "bigint"),
        ("double", "float", "double"),
        ("decimal(5,2)", "decimal(9,2)", "decimal(9,2)"),
        ("decimal(5,2)", "decimal(9,3)", None),
        ("struct<a: int>", "struct<b: string, a: bigint>", "struct<a: bigint, b: string>"),
        ("array<int>", "array<bigint>", "array<bigint>"),
        ("map<string, int>", "map<int, int>", None),
        ("int", "string", None),
        ("date", "timestamp", None),
    ],
)
def test_a_column_becomes_what_iceberg_can(old: str, new: str, both: str | None) -> None:
    column_type = joined(kind_of(old), kind_of(new))
    assert column_type == (None if both is None else kind_of(both))
    assert can_become(kind_of(old), kind_of(new)) == (both == new)


def test_columns_follow_from_all_versions() -> None:
    versions = [
        (1, list(columns_of("a int, b string, offset int"))),
        (2, list(columns_of("a bigint, b double"))),
        (4, [*columns_of("b double, a int"), ("B", kind_of("string"))]),
    ]
    assert columns_of_versions(versions) == (
        Column("b_v2", kind_of("double"), "b"),
        Column("a", kind_of("bigint"), "a"),
        Column("value_B", kind_of("string"), "B"),
    )
