"""Tables, JSON and YAML of the command line, and progress: what people and programs are shown."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import yaml
from odradek.cli.output import Output, as_yaml, show_rows
from odradek.cli.screen import progress
from rich.console import Console

ROWS = [
    {"partition": "orders-0", "records": 12_345, "ratio": None, "member": None},
    {"partition": "orders-10", "records": 7, "ratio": 0.5, "member": "a"},
]
COLUMNS = ["partition", "records", "ratio", "member"]


def test_numbers_are_aligned_to_the_right_under_a_header(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(ROWS, COLUMNS)
    assert capsys.readouterr().out.splitlines() == [
        "partition  records  ratio  member",
        "orders-0     12345      -  -",
        "orders-10        7    0.5  a",
    ]
    show_rows([], ["group", "log_start_offset"])
    assert capsys.readouterr().out == "group  log start offset\n", "a header, though there is nothing"


def test_markup_in_a_name_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows([{"group": "[red]g[/red]"}], ["group"])
    assert capsys.readouterr().out.splitlines()[1] == "[red]g[/red]"


def test_on_a_terminal_a_table_is_no_wider_than_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(Console, "is_terminal", True)
    member = "m" * 90
    show_rows([{"partition": "t-0", "lag": 1_234_567, "member": member}], ["partition", "lag", "member"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "1234567" in lines[1]
    assert "".join(line[20:].strip() for line in lines[1:]).endswith("m")
    assert sum(line.count("m") for line in lines[1:]) == 90, "a long cell continues; it is not cut"


def test_names_are_broken_last(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(Console, "is_terminal", True)
    show_rows([{"name": "min.cleanable.dirty.ratio", "effect": "word " * 30}], ["name", "effect"])
    assert "min.cleanable.dirty.ratio" in capsys.readouterr().out
    names = {f"column_{number}": f"a-name-of-30-characters-{number:06}" for number in range(3)}
    show_rows([names], list(names))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    assert sum(line.count("name") for line in lines[1:]) == 3, "none is cut"


@pytest.mark.parametrize(
    "data",
    [
        [],
        {},
        "text",
        {"a": 1, "b": [1, "two", None, True, 0.5], "c": {"d": [], "e": {}}},
        [{"a": "yes", "b": "1", "c": "", "d": "a: b", "e": "#x", "f": "-", "g": "x\ny", "h": "null", "i": " x "}],
        [[1, [2, {"deep": [3]}]], "2026-11-22", "12:30", "1e3", "0x1F", "~", "ä ö", "a/b.c-d", "x,y", "[z]"],
        {
            "a": "x\n  y\n\nz",
            "b": {"c": "x: 1\n# y\n"},
            "d": "\nx",
            "e": "x\n\n",
            "f": "x \ny\t\n",
            "g": " x\ny",
            "h": "x\n \ny",
        },
    ],
)
def test_yaml_is_read_back_as_it_was(data: Any) -> None:
    assert yaml.safe_load(as_yaml(data)) == data


def test_rows_are_data_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(ROWS, ["partition"], Output.JSON)
    assert json.loads(capsys.readouterr().out) == ROWS
    show_rows(ROWS, ["partition"], Output.YAML)
    assert yaml.safe_load(capsys.readouterr().out) == ROWS


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, shown, is_seen in (
        (_Terminal(), True, True),
        (_Terminal(), False, False),
        (io.StringIO(), True, False),
    ):
        monkeypatch.setattr("sys.stderr", stream)
        with progress("reading", 10, shown=shown) as advance:
            advance(4)
        assert ("reading" in stream.getvalue()) is is_seen
