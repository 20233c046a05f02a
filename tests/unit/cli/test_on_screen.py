"""Text of records on a terminal: control characters are shown, not obeyed; a pipe gets the bytes."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import pytest
from odradek.cli.output import Output, cell, on_screen, show_data, write_data

STEERING = "a\x1b]0;title\x07\x1b[2J\rb\x9b31m\x7f\u202e"
SHOWN = "a\\x1b]0;title\\x07\\x1b[2J\\rb\\x9b31m\\x7f\\u202e"


class Screen(io.TextIOWrapper):
    """Standard output that may be a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="")
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal

    def written(self) -> str:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode("utf-8", "surrogateescape")


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize(
    "write",
    [
        lambda: write_data(STEERING.encode() + b"\n"),
        lambda: print(on_screen(STEERING)),
        lambda: print(cell(STEERING)),
        lambda: show_data({"value": "x\x9b31m\x7f\u202e"}, Output.JSON),
    ],
    ids=["bytes", "text", "cell", "json"],
)
def test_a_terminal_is_not_steered_by_records(
    monkeypatch: pytest.MonkeyPatch, write: Callable[[], Any], *, is_terminal: bool
) -> None:
    screen = Screen(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stdout", screen)
    write()
    written = screen.written()
    assert any(character in written for character in "\x1b\x9b\x7f\u202e") != is_terminal
    if is_terminal:
        assert "\\x9b31m\\x7f\\u202e" in written


def test_what_is_shown_and_what_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stdout", screen)
    assert on_screen(STEERING) == SHOWN
    assert on_screen("ä\tb\n") == "ä\tb\n"
    write_data(b"\xff\n")
    assert screen.written() == "\\xff\n"
