"""Java's regular expressions in a plan: which compile, and what groups they have."""

from __future__ import annotations

import pytest
from odradek.sql.functions.in_python import chr_of_text, has_group, instr, no_pattern, no_replacement, no_zone
from odradek.sql.functions.patterns import can_replace, groups_of, optional_groups
from odradek.sql.functions.times import shows


@pytest.mark.parametrize(
    ("pattern", "groups"),
    [
        ("", 0), ("a(b)(?:c)(?<n>d)", 2), (r"\(a\)", 0), (r"\Q(\E(a)", 1), (r"\Q(", 0), ("[(]", 0), ("[]a](b)", 1),
        ("[a[bc]&&[^c]](d)", 1), (r"[a\]](b)", 1), ("[a-]", 0), ("(?i)a", 0), ("(?i-s:a)(b)", 1), ("(?<=a)b", 0),
        ("(?<!a)(b)", 1), ("a{2,3}+b*?", 0), ("^*$", 0), (r"(?<n>a)\k<n>", 1), (r"\p{Lu}\pL\P{IsGreek}", 0),
        (r"\x41\x{1F600}\u0041\cA\07\h\R", 0), ("((a)|b)", 2),
    ],
)  # fmt: skip
def test_patterns_that_java_compiles(pattern: str, groups: int) -> None:
    assert groups_of(pattern) == groups
    found = [has_group({"pattern": pattern, "group": each}) for each in (-1, groups, groups + 1, None)]
    assert found == [False, True, False, None]


@pytest.mark.parametrize(
    "pattern",
    [
        "(a", "a)", "[a", "[]", "[z-a]", "*a", "a**", "a|*", "(+)", "{", "a{2", "a{3,2}", "a{x}", "\\", r"\y", r"\k<n>",
        r"[\b]", r"\xg", r"\u12", r"\p{Foo}", r"\p{L", "(?z)", "(?", "(?<1>a)", "(?<n>a)(?<n>b)", r"\0", "[a[b]",
    ],
)  # fmt: skip
def test_patterns_that_java_does_not_compile(pattern: str) -> None:
    assert groups_of(pattern) is None
    assert no_pattern(pattern)
    assert has_group({"pattern": pattern, "group": 0}) is False


@pytest.mark.parametrize(
    ("pattern", "optional"),
    [("(a)?(b)", {1}), ("(a)|(b)c", {1, 2}), ("(a(b)*)(c)", {2}), ("((a)|b)(c)", {2}), ("(?:(a)){0,2}", {1}),
     ("(?!(a))b", {1}), ("(a)+(b){1,2}", set())],
)  # fmt: skip
def test_groups_that_need_not_take_part_in_a_match(pattern: str, optional: set[int]) -> None:
    assert optional_groups(pattern) == optional


def test_what_a_match_can_be_replaced_by() -> None:
    assert all(can_replace(each, "(a)(?<n>b)") for each in ("", "x", "$0$1$2", "$12", "${n}", r"\$9", r"\\"))
    assert not any(can_replace(each, "(a)(?<n>b)") for each in ("$3", "$", "$x", "${m}", "a\\"))
    assert no_replacement({"new": "$1", "pattern": "a"})
    assert no_replacement({"new": None, "pattern": "a"}) is None


def test_time_zones_and_patterns_of_times() -> None:
    assert not any(no_zone(each) for each in ("UTC", "Europe/Berlin", "Z", "+01:00", "GMT-3", "-0330"))
    assert all(no_zone(each) for each in ("Nowhere/Land", "", "+1:2:3:4", "Europe"))
    assert shows("FORMAT_DATE", "EEEE, dd.MM.yyyy 'at' G")
    assert not shows("FORMAT_DATE", "HH:mm")
    assert not shows("FORMAT_TIME", "yyyy")
    assert not shows("FORMAT_TIMESTAMP", "yyyy'T")
    assert not shows("FORMAT_TIMESTAMP", "jjj")
    assert shows("FORMAT_TIMESTAMP", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX")


def test_nothing_is_found_in_no_text_and_nothing_is_told_without_a_position() -> None:
    assert instr(None, "a", 1, 1) == instr("a", None, 1, 1) == 0
    assert instr("a", "a", None, 1) is None
    assert chr_of_text("\\u00zz") is None
