"""The demo's tables fit a terminal of 80 columns: no cell is cut, no line is broken."""

from __future__ import annotations

import io

import pandas as pd
from odradek.cli.demo.group import Member
from odradek.cli.demo.report import show_cost, show_group, show_worst_hours
from odradek.model.topic_partition import TopicPartition
from odradek.ports.meter import Usage
from rich.console import Console

WIDTH = 80


def printed(show: object, *arguments: object) -> list[str]:
    out = io.StringIO()
    show(Console(file=out, width=WIDTH), *arguments)  # type: ignore[operator]
    return out.getvalue().splitlines()


def test_the_worst_hours_are_a_line_each() -> None:
    """So in a pipe, which has no width: its log is read on a terminal."""
    windows = pd.DataFrame(
        {
            "origin": ["EWR", "JFK"],
            "window_start": pd.to_datetime(["2013-12-28 21:00", "2013-05-23 17:00"]).tz_localize("UTC"),
            "departures": [112.0, 6.0],
            "cancelled": [100.0, 0.0],
            "mean_delay_minutes": [1126.0, 40.5],
            "p95_delay_minutes": [1301.0, 60.0],
            "worst_delay_minutes": [1301.0, 80.0],
            "worst_airline": ["ExpressJet Airlines Incorporated", "JetBlue Airways"],
            "worst_carrier": ["EV", "B6"],
            "worst_flight": [5678.0, 1.0],
            "worst_destination": ["ORD", "BOS"],
            "wind_speed_mph": [42.0, None],
            "visibility_miles": [10.0, None],
        }
    )
    out = io.StringIO()
    show_worst_hours(Console(file=out, width=200), windows)
    assert max(len(line.rstrip()) for line in out.getvalue().splitlines()) <= WIDTH
    lines = printed(show_worst_hours, windows)
    assert max(map(len, lines)) <= WIDTH
    [worst] = [line for line in lines if "EV5678 ORD" in line]
    assert worst.split() == [
        "EWR",
        "28",
        "Dec",
        "16:00",
        "112",
        "100",
        "1126",
        "1301",
        "1301",
        "EV5678",
        "ORD",
        "42",
        "10",
    ]
    assert "…" not in "".join(lines)


def test_the_group_and_the_cost_fit_too() -> None:
    members = [Member("member-1", 336_776, {TopicPartition("flights", n) for n in range(6)})]
    usage = Usage(
        table_write_units=1e9, object_put_requests=10**9, object_bytes_written=10**13, function_requests=10**9
    )
    for lines in (printed(show_group, members, 336_776), printed(show_cost, usage, None)):
        assert max(map(len, lines)) <= WIDTH
        assert "…" not in "".join(lines)
    assert any("10,000,000.0 MB" in line for line in lines)
