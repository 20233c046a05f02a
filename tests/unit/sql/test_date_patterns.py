"""Dates by patterns, as Java 17 shows and reads them in its locale en_US: its results, and what has none."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.sql.functions.as_java.date_patterns import is_pattern, spark_reads, spark_shows
from odradek.sql.functions.as_java.date_read import read_date, read_time
from odradek.sql.functions.as_java.date_shown import show_time

DAY = 18_630  # 3 January 2021, a Sunday
OFFSETS = " ".join("X" * count for count in (1, 2, 3))
AT = 1_609_545_600_123_000  # 2 January 2021, 00:00:00.123


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        ("YYYY-'W'ww-e", "2021-W02-1"), ("Y YY YYYYY w W c", "2021 21 02021 2 2 1"), ("F D DDD", "3 3 003"),
        ("u uu uuuu y yy", "2021 21 2021 2021 21"), ("Q QQ QQQ QQQQ QQQQQ", "1 01 Q1 1st quarter 1"),
        ("M MM MMM MMMM MMMMM L", "1 01 Jan January J 1"),
        ("E EEEE EEEEE e ee eee cccc", "Sun Sunday S 1 01 Sun Sunday"),
        ("G GGGG GGGGG", "AD Anno Domini A"), ("''yyyy'a''b'", "'2021a'b"), ("yyyy[ HH:mm]", "2021"), ("ppd", " 3"),
        ("[yyyy", "2021"), ("", ""), ("HH", None), ("yyyy]", None), ("'a", None), ("yyyy{", None), ("pp", None),
        ("ddd", None), ("cc", None), ("b", None), ("pMM", None),
    ],
)  # fmt: skip
def test_dates(pattern: str, shown: str | None) -> None:
    assert show_time("DATE", DAY, pattern, "GMT") == shown


@pytest.mark.parametrize(
    ("pattern", "zone", "shown"),
    [
        ("H HH h hh K k a", "UTC", "0 00 12 12 0 24 AM"),
        ("m s S SSS n N A", "UTC", "0 0 1 123 123000000 123000000 123"),
        ("B", "UTC", "midnight"), ("B", "Asia/Tokyo", "in the morning"), ("BBBBB", "UTC", "mi"),
        (f"{OFFSETS} {'X' * 4} {'X' * 5} x Z ZZZZ ZZZZZ O OOOO", "GMT", "Z Z Z Z Z +00 +0000 GMT Z GMT GMT"),
        (f"{OFFSETS} x Z ZZZZ ZZZZZ O OOOO", "+05:30",
         "+0530 +0530 +05:30 +0530 +0530 GMT+05:30 +05:30 GMT+5:30 GMT+05:30"),
        ("VV z zzzz", "GMT", "GMT GMT Greenwich Mean Time"), ("VV z", "Europe/Paris", "Europe/Paris CET"),
        ("yyyy-MM-dd HH", "America/Los_Angeles", "2021-01-01 16"), ("zzzz", "Europe/Paris", None),
        ("H", "Nowhere", None),
    ],
)  # fmt: skip
def test_timestamps(pattern: str, zone: str, shown: str | None) -> None:
    assert show_time("TIMESTAMP", AT, pattern, zone) == shown


@pytest.mark.parametrize(
    ("day", "shown"), [(18_627, "2021-01"), (18_628, "2021-01"), (19_356, "2022-53"), (19_358, "2023-01")]
)
def test_weeks_begin_on_sunday_and_the_first_has_1_january(day: int, shown: str) -> None:
    assert show_time("DATE", day, "YYYY-ww", "GMT") == shown


@pytest.mark.parametrize(
    ("kind", "text", "pattern", "read"),
    [
        ("DAYS", "2021-02-1", "YYYY-ww-e", DAY), ("DAYS", "2021-01-2-1", "yyyy-MM-W-e", DAY),
        ("DAYS", "Sun, 03 jan 2021", "EEE, dd MMM yyyy", DAY), ("DAYS", "Mon, 03 Jan 2021", "EEE, dd MMM yyyy", None),
        ("DAYS", "2021003", "yyyyDDD", DAY), ("DAYS", "2021-366", "yyyy-DDD", None),
        ("DAYS", "2021-02-31", "yyyy-MM-dd", 18_686),
        ("DAYS", "210103", "yyMMdd", DAY), ("DAYS", "2021-1-3", "yyyy-MM-dd", None),
        ("DAYS", "2021-01", "yyyy-MM", None),
        ("DAYS", "Q2 2021-01-03", "QQQ yyyy-MM-dd", None), ("DAYS", "2021-01-03x", "yyyy-MM-dd", None),
        ("DAYS", "BC 1-01-01", "G y-MM-dd", None), ("DAYS", "+12021-01-03", "yyyy-MM-dd", None),
        ("TIME", "45296789", "A", 45_296_789), ("TIME", "10:20 pm", "hh:mm a", 80_400_000),
        ("TIME", "24:00", "kk:mm", 0),
        ("TIME", "PM", "a", 64_800_000), ("TIME", "10", "hh", None), ("TIME", "2021 10", "yyyy HH", None),
        ("TIMESTAMP", "2021-03", "uuuu-MM", 1_614_556_800_000), ("TIMESTAMP", "10:20", "HH:mm", 37_200_000),
        ("TIMESTAMP", "10", "HH[:mm]", 36_000_000), ("TIMESTAMP", "Wed", "EEE", -86_400_000),
        ("TIMESTAMP", "2021-01-03T05+0100", "yyyy-MM-dd'T'HHZ", 1_609_646_400_000),
        ("TIMESTAMP", "2021-01-03T05 Europe/Paris", "yyyy-MM-dd'T'HH VV", 1_609_646_400_000),
        ("TIMESTAMP", "2021-01-03T05 PST", "yyyy-MM-dd'T'HH z", 1_609_678_800_000),
        ("TIMESTAMP", "2021-01-03T05Z", "yyyy-MM-dd'T'HHX", 1_609_650_000_000),
        ("TIMESTAMP", "20210103051015123", "yyyyMMddHHmmssSSS", 1_609_650_615_123), ("TIMESTAMP", "x", "{", None),
    ],
)  # fmt: skip
def test_texts(kind: str, text: str, pattern: str, read: int | None) -> None:
    assert read_time(kind, text, pattern, "GMT") == read


@pytest.mark.parametrize(
    ("text", "pattern", "read"),
    [
        ("2021-01-03x", "yyyy-MM-dd", DAY),
        ("2021-1-3", "yyyy-MM-dd", DAY),
        ("2020-13-3", "yyyy-MM-dd", DAY),
        ("2021-02-1", "YYYY-ww-e", None),
        ("2021-01 7", "yyyy-MM u", DAY),
        ("2021-02", "YYYY-ww", DAY),
        ("2021-01-03 05", "yyyy-MM-dd HH", None),
        ("Mon", "EEE", 4),
    ],
)
def test_texts_of_simple_formats(text: str, pattern: str, read: int | None) -> None:
    assert read_date(text, pattern, DAY) == read


def test_a_zone_is_that_of_texts_without_one() -> None:
    texts = [("2021-01-03 05", "yyyy-MM-dd HH"), ("2021-01-03 05Z", "yyyy-MM-dd HHX")]
    assert [read_time("TIMESTAMP", *each, "Europe/Paris") for each in texts] == [1_609_646_400_000, 1_609_650_000_000]
    assert read_time("TIMESTAMP", *texts[0], "Nowhere") is None


def test_short_years_of_simple_formats_are_those_around_today() -> None:
    """In java.text.SimpleDateFormat: from eighty years ago to in twenty years, to the day."""
    today = (dt.date(2031, 5, 10) - dt.date(1970, 1, 1)).days
    texts = ["9/5/51", "10/5/51", "1/1/52", "1/1/50", "31/12/99"]
    read = [read_date(each, "d/M/yy", today) for each in texts]
    years = [None if each is None else (dt.date(1970, 1, 1) + dt.timedelta(days=each)).year for each in read]
    assert years == [2051, 1951, 1952, 2050, 1999]


def test_sections_within_each_other_have_an_end() -> None:
    deep = "[" * 100_000 + "yyyy"
    assert not is_pattern(deep)
    assert (show_time("DATE", DAY, deep, "GMT"), read_date("2021", deep, DAY)) == (None, None)
    assert show_time("DATE", DAY, "[" * 50 + "yyyy", "GMT") == "2021"


def test_what_spark_takes() -> None:
    patterns = ["yyyy-MM-dd'T'HH:mm:ss.SSSX", "EEE", "QQQ", "YYYY", "MMMMM", "n", "uuuu"]
    assert [spark_shows(each) for each in patterns] == [True, True, True, False, False, False, False]
    assert [spark_reads(each) for each in patterns] == [True, False, False, False, False, False, False]


LETTERS = "GuyYQqMLwWdDFEecaBhKkHmsSAnNVvzOXxZp[]'{ -:T"


@given(
    st.text(LETTERS, max_size=12),
    st.text("0123456789-:+ AMaSunJQZT", max_size=12),
    st.sampled_from(["GMT", "+", "UT-", ""]),
)
def test_any_pattern_and_text_have_a_value_or_none(pattern: str, text: str, zone: str) -> None:
    for kind, value in (("DATE", DAY), ("TIME", 5), ("TIMESTAMP", AT), ("TIMESTAMP", 10**18)):
        shown = show_time(kind, value, pattern, zone)
        assert shown is None or is_pattern(pattern)
    for kind in ("DAYS", "TIME", "TIMESTAMP"):
        assert read_time(kind, text, pattern, zone) is None or is_pattern(pattern)
    assert read_date(text, pattern, DAY) is None or is_pattern(pattern)
