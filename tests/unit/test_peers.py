"""The differential suite's own parts, without Java: schemas, codec, answers, accepted differences."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.peers.accepted import Difference, load, renewed, shown, to_toml
from tests.peers.answers import ABSENT, differences, normalised
from tests.peers.codec import UNKNOWN_TAGS, Malformed, decode, encode
from tests.peers.compare import common_versions, load_probes
from tests.peers.schemas import NO_VERSION, Versions, parse_message, parse_versions
from tests.support.counted import at_least
from tools.differences_page import PAGE, SQL_PAGE, page, sql_page

MESSAGE = parse_message("""
// A comment with "quotes".
{
  "apiKey": 99, "type": "request", "name": "ThingRequest", "validVersions": "0-3", "flexibleVersions": "2+",
  "fields": [
    { "name": "Name", "type": "string", "versions": "0+", "nullableVersions": "1+", "about": "See http://x // y." },
    { "name": "Count", "type": "int32", "versions": "0-1", "default": "-1" }, // of old versions
    { "name": "Id", "type": "uuid", "versions": "3+" },
    { "name": "Data", "type": "records", "versions": "0+", "nullableVersions": "0+" },
    { "name": "Parts", "type": "[]Part", "versions": "0+", "nullableVersions": "1+", "fields": [
      { "name": "Index", "type": "int16", "versions": "0+" },
      { "name": "Flag", "type": "bool", "versions": "2+", "taggedVersions": "2+", "tag": 0, "default": "true" }
    ]},
    { "name": "Cursor", "type": "Cursor", "versions": "2+", "nullableVersions": "2+", "default": "null", "fields": [
      { "name": "Topic", "type": "string", "versions": "2+" }
    ]}
  ]
}
""")


@pytest.mark.parametrize(
    ("text", "versions"),
    [("3", Versions(3, 3)), ("2-5", Versions(2, 5)), ("4+", Versions(4, 32_767)), ("none", NO_VERSION)],
)
def test_ranges_of_versions(text: str, versions: Versions) -> None:
    assert parse_versions(text) == versions


def test_an_old_version_has_fixed_lengths_and_defaults() -> None:
    encoded = encode(MESSAGE, 0, {"Name": "ab", "Data": b"xyz", "Parts": [{"Index": 7}]})
    assert encoded == b"\0\2ab" + b"\xff\xff\xff\xff" + b"\0\0\0\3xyz" + b"\0\0\0\1\0\7"
    assert decode(MESSAGE, 0, encoded) == {"Name": "ab", "Count": -1, "Data": b"xyz", "Parts": [{"Index": 7}]}


def test_a_flexible_version_has_compact_lengths_and_tagged_fields() -> None:
    encoded = encode(MESSAGE, 2, {"Name": None, "Parts": [{"Index": 7, "Flag": False}], "Cursor": {"Topic": "t"}})
    assert encoded == b"\0" + b"\0" + b"\2" + b"\0\7\1\0\1\0" + b"\1\2t\0" + b"\0"
    assert decode(MESSAGE, 2, encoded)["Parts"] == [{"Index": 7, "Flag": False}]


def test_every_version_comes_back() -> None:
    identity = uuid.UUID(int=5)
    for version in range(4):
        values: dict[str, Any] = {"Name": "n", "Data": None, "Parts": None if version else []}
        values |= {"Count": 4} if version < 2 else {"Cursor": None}
        values |= {"Id": identity} if version == 3 else {}
        assert decode(MESSAGE, version, encode(MESSAGE, version, values)) == values


def test_an_unknown_tagged_field_is_kept_apart() -> None:
    encoded = encode(MESSAGE, 2, {"Name": "n"})[:-1] + b"\1\5\2hi"
    assert decode(MESSAGE, 2, encoded)[UNKNOWN_TAGS] == {5: b"hi"}


def test_a_field_that_the_version_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="version 2 has no field Count"):
        encode(MESSAGE, 2, {"Count": 1})


def test_short_and_long_bytes_are_malformed() -> None:
    encoded = encode(MESSAGE, 0, {"Name": "ab"})
    for data in (encoded[:-1], encoded + b"\0"):
        with pytest.raises(Malformed):
            decode(MESSAGE, 0, data)


def test_answers_are_without_what_differs_from_run_to_run() -> None:
    one, other = uuid.UUID(int=1), uuid.UUID(int=2)
    response = {
        "ErrorCode": 3,
        "ErrorMessage": "no such t-p1x",
        "Port": 4711,
        "Ids": [one, other, one, uuid.UUID(int=0)],
    }
    assert normalised({**response, "Name": "t-p1x", "Raw": b"\1"}, "p1x", ["127.0.0.1:4711"]) == {
        "ErrorCode": "UNKNOWN_TOPIC_OR_PARTITION",
        "ErrorMessage": "...",
        "Port": "PORT",
        "Ids": ["uuid-1", "uuid-2", "uuid-1", "none"],
        "Name": "t-*",
        "Raw": "01",
    }


def test_differences_name_the_place_and_both_values() -> None:
    one = {"Topics": [{"ErrorCode": "NONE", "Name": "t"}], "Same": 1, "Rows": [1]}
    other = {"Topics": [{"ErrorCode": "NONE", "Name": "u", "More": 1}], "Same": 1, "Rows": [1, 2]}
    assert differences(one, other) == {
        "Topics[0].Name": ("t", "u"),
        "Topics[0].More": (ABSENT, 1),
        "Rows": ([1], [1, 2]),
    }
    assert differences(one, one) == {}


def test_versions_that_both_brokers_have() -> None:
    assert common_versions({"A": (0, 5), "B": (1, 2)}, {"A": (2, 9), "C": (0, 0)}) == {
        "A": (2, 5),
        "B": (1, 2),
        "C": (0, 0),
    }


def test_what_a_run_left_is_read_as_accepted(tmp_path: Path) -> None:
    left = {'topics: a "b"': shown({"x.y": (None, [1, "z"]), "long": ("a" * 500, "b")})}
    file = tmp_path / "differences.toml"
    file.write_text('[[difference]]\nsubject = "S"\nreason = "R."\n' + to_toml(left.items()))
    (difference,) = load(file)
    assert difference.probes == left


def test_a_run_renews_what_is_accepted(tmp_path: Path) -> None:
    before = [
        Difference("S", "R.", "a.md", {"gone: x": {"p": ("1", "2")}, "kept: y": {"p": ("1", "2")}, "not run: z": {}})
    ]
    file = tmp_path / "differences.toml"
    file.write_text(renewed(before, {"gone: x": {}, "kept: y": {"p": ("1", "3")}}))
    assert load(file) == [Difference("S", "R.", "a.md", {"kept: y": {"p": ("1", "3")}})]


def test_the_page_of_differences_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "make reference"
    sql = SQL_PAGE.read_text(encoding="utf-8")
    assert sql == sql_page(sql), "make reference"


def test_every_accepted_difference_is_of_a_probe() -> None:
    probes = load_probes()
    for difference in at_least(10, load()):
        assert set(difference.probes) <= set(probes), difference.subject
        assert difference.reason.endswith("."), difference.subject


def test_a_message_that_we_say_beside_an_error_is_no_difference() -> None:
    assert differences({"ErrorMessage": None}, {"ErrorMessage": "..."}) == {}
    assert differences({"ErrorMessage": "..."}, {"ErrorMessage": None}) == {"ErrorMessage": ("...", None)}
