"""How many lines a function writes about its invocations, and how long they are."""

from __future__ import annotations

import json
from typing import Any

from odradek.functions.invocation_log import InvocationLog
from odradek.functions.telemetry import Invocation
from odradek.ports.meter import Usage


def _log(interval_ms: int = 5_000, *, is_detailed: bool = False) -> tuple[InvocationLog, list[str]]:
    lines: list[str] = []
    return InvocationLog("c", "produce", lines.append, interval_ms=interval_ms, is_detailed=is_detailed), lines


def _invocation(number: int, **facts: Any) -> Invocation:
    facts = {"api": "PRODUCE", "api_version": 9, "client_id": "p", "duration_ms": 10.0, "bytes_in": 100, **facts}
    return Invocation("c", "produce", f"6f9619ff-8b86-d011-b42d-{number:012}", **facts)


def test_a_busy_function_writes_a_line_every_five_seconds_with_the_sums() -> None:
    log, lines = _log()
    for number in range(1_000):  # a hundred a second
        log.add(_invocation(number), Usage(table_write_units=2, object_put_requests=1), number * 10)
    assert len(lines) == 2, "the first invocation, and that of the fifth second"
    line = json.loads(lines[1])
    assert (line["invocations"], line["bytes_in"], line["table_write_units"]) == (500, 50_000, 1_000)
    assert (line["duration_ms"], line["duration_ms_max"]) == (5_000, 10)
    assert line["request_id"].endswith("500")


def test_a_line_is_short() -> None:
    log, lines = _log()
    log.add(_invocation(1), Usage(table_write_units=2, table_requests=1, object_put_requests=1), 0)
    assert len(lines[0]) < 350
    assert "_aws" not in lines[0]


def test_a_refused_invocation_is_the_one_that_the_line_shows() -> None:
    log, lines = _log()
    log.add(_invocation(0), Usage(), 0)
    log.add(_invocation(1, errors=1, error="INVALID_REQUEST", status=400), Usage(), 1)
    log.add(_invocation(2), Usage(), 2)
    log.add(_invocation(3), Usage(), 5_000)
    line = json.loads(lines[1])
    assert (line["level"], line["errors"], line["error"], line["status"]) == ("WARN", 1, "INVALID_REQUEST", 400)
    assert line["request_id"].endswith("001")


def test_an_unexpected_exception_is_written_at_once() -> None:
    log, lines = _log()
    log.add(_invocation(0), Usage(), 0)
    log.add(_invocation(1, faults=1, status=500), Usage(), 1)
    assert json.loads(lines[1])["level"] == "ERROR"


def test_each_invocation_has_a_line_if_it_is_asked_for() -> None:
    log, lines = _log(0)
    for number in range(3):
        log.add(_invocation(number), Usage(), 0)
    assert len(lines) == 3
