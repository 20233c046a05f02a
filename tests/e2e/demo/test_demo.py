"""`odradek demo` on a part of the data: with the service killed in mid-stream, and again on what it left.

Slow: a service, a JVM and 20,000 flights through it, twice.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from odradek.cli.demo import DemoFailed, run_demo
from odradek.cli.demo.workspace import MARKER
from rich.console import Console

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

FLIGHTS = 20_000


def demo(data_dir: Path, **options: object) -> str:
    console = Console(file=io.StringIO(), width=200, highlight=False)
    assert run_demo(data_dir, records=FLIGHTS, console=console, **options) == 0  # type: ignore[arg-type]
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_every_acknowledged_record_is_there_once_after_sigkill_and_a_second_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    first = demo(folder, crash_at=8_000)
    assert "killed with SIGKILL" in first
    assert "Equal to pandas" in first
    assert f"{FLIGHTS:,} flights" in first
    assert (folder / "delays.png").stat().st_size > 10_000
    # Nothing is left running, and nothing more is told than what is meant for people.
    assert "Traceback" not in first

    second = demo(folder, keep=True)
    assert "Kept: flights, weather, airlines, planes" in second
    assert "0 flights in 0 micro-batches" in second  # the checkpoint has them all
    assert "Equal to pandas" in second


def test_a_wrong_result_is_told_and_fails() -> None:
    """The check itself: one delay changed in a window that Spark made right."""
    import pandas as pd
    from odradek.cli.demo.check import check_topic, check_windows
    from odradek.cli.demo.dataset import load
    from odradek.cli.demo.reference import expected_windows

    expected = expected_windows(load(2_000))
    check_windows(expected, expected)
    wrong = expected.copy()
    wrong.loc[5, "p95_delay_minutes"] += 1
    with pytest.raises(DemoFailed, match=r"^1 windows differ in p95_delay_minutes; the first is .* from the job"):
        check_windows(wrong, expected)
    with pytest.raises(DemoFailed, match="windows, pandas"):
        check_windows(expected.iloc[:-1], expected)
    gap = expected.copy()
    gap.loc[3, "wind_speed_mph"] = pd.NA
    with pytest.raises(DemoFailed, match="differ in wind_speed_mph"):
        check_windows(gap, expected)
    values = {
        f"{row.origin}|{row.window_start}".encode(): json.dumps(
            {"scheduled": row.scheduled, "departures": row.departures, "cancelled": row.cancelled}
        ).encode()
        for row in expected.itertuples()
    }
    check_topic(values, expected)
    values.popitem()
    with pytest.raises(DemoFailed, match="topic delays"):
        check_topic(values, expected)


def test_a_folder_that_is_not_the_demos_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DemoFailed, match="choose another --data-dir"):
        run_demo(tmp_path, records=10)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
    assert not (tmp_path / MARKER).exists()


def test_two_demos_do_not_share_a_folder(tmp_path: Path) -> None:
    from odradek.cli.demo.workspace import open_workspace

    with (
        open_workspace(tmp_path / "demo", keep=False),
        pytest.raises(DemoFailed, match="another demo is running"),
        open_workspace(tmp_path / "demo", keep=False),
    ):
        pass
