"""The steps of the demo in order. Everything that was started is stopped, whatever happens.

1 service   2 topics and records   3 group of three   4 Glue job   5 results   6 checks
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from odradek import Admin, NewTopic
from odradek.cli.demo import check, report
from odradek.cli.demo.dataset import Dataset, load
from odradek.cli.demo.group import read_together
from odradek.cli.demo.job import JobRun, find_checkout, require_java, run_job
from odradek.cli.demo.query import query_windows
from odradek.cli.demo.reference import expected_windows
from odradek.cli.demo.service import ServiceProcess
from odradek.cli.demo.stream import Streamed, make_topics, stream
from odradek.cli.demo.workspace import Workspace, open_workspace

_LOG_WIDTH = 120

DELAYS = NewTopic("delays", 3, configs={"cleanup.policy": "compact"})


def run_demo(
    data_dir: Path,
    *,
    keep: bool = False,
    records: int | None = None,
    crash_at: int | None = None,
    console: Console | None = None,
) -> int:
    """Run the demo and return 0.

    Args:
        data_dir: a folder for the store and the results; emptied first unless `keep`.
        keep: continue with the existing store; complete topics are not streamed again.
        records: only the first so many flights.
        crash_at: kill the service with SIGKILL after so many records, and start it again; the stream continues.
        console: where to print.

    Raises:
        DemoFailed, KafkaError: a step failed, or the result differs from that of pandas; the message says which.
    """
    # A log file has no width: give the tables the room that they need.
    console = console or Console(highlight=False, width=None if sys.stdout.isatty() else _LOG_WIDTH)
    require_java()
    checkout = find_checkout()
    with _terminable(), open_workspace(data_dir, keep=keep) as workspace:
        data = load(records)
        with ServiceProcess(workspace.store, workspace.log("service")) as service:
            console.print(f"[bold]1[/bold] The embedded service answers on {service.bootstrap_servers}")
            streamed = _stream(service, data, workspace, console, crash_at)
            _group(service, data, console)
            job = _job(checkout, service, workspace, console)
            return _outcome(service, data, workspace, console, streamed, job)


def _stream(
    service: ServiceProcess, data: Dataset, workspace: Workspace, console: Console, crash_at: int | None
) -> Streamed | None:
    config = service.client_config
    empty = make_topics(config, data.topics, [DELAYS])
    if empty:
        # The checkpoint has offsets of topics that no longer exist.
        workspace.forget_results()
    kept = [topic.name for topic in data.topics if topic not in empty]
    if kept:
        console.print(f"[bold]2[/bold] Kept: {', '.join(kept)}")
    if not empty:
        return None
    console.print(f"[bold]2[/bold] Streaming {sum(topic.count for topic in empty):,} records through the functions")
    crashes = [] if crash_at is None else [crash_at]

    def tick(sent: int) -> None:
        if crashes and sent >= crashes[0]:
            crashes.pop()
            console.print(f"  after {sent:,} records, the service is killed with SIGKILL")
            service.kill()
            service.start()
            console.print("  the service runs again, and the stream continues")

    streamed = stream(config, empty, console, tick)
    seconds, megabytes = streamed.seconds, streamed.payload_bytes / 1e6
    console.print(
        f"  {streamed.records:,} records, {megabytes:.1f} MB in {seconds:.1f} s: "
        f"{streamed.records / seconds:,.0f} records/s, {megabytes / seconds:.1f} MB/s"
    )
    return streamed


def _group(service: ServiceProcess, data: Dataset, console: Console) -> None:
    config = service.client_config
    with Admin(**config) as admin:
        runs = sum(1 for group in admin.list_consumer_groups() if group.group_id.startswith("flight-board"))
    console.print("[bold]3[/bold] A consumer group of three reads every flight once")
    with console.status("reading"):
        members = read_together(config, "flights", f"flight-board-{runs + 1}", len(data.flights))
    report.show_group(console, members, len(data.flights))


def _job(checkout: Path, service: ServiceProcess, workspace: Workspace, console: Console) -> JobRun:
    console.print("[bold]4[/bold] The Glue job flight_delays, on a local Spark")
    with console.status("running: Spark takes some seconds to start"):
        job = run_job(checkout, service, workspace)
    summary = job.summary
    console.print(
        f"  {summary['records']:,} flights in {summary['batches']} micro-batches made {summary['windows']:,} windows; "
        f"{summary['window_updates_sent']:,} updates written to the topic delays; {job.seconds:.0f} s"
    )
    if summary["late_groups_dropped"]:
        console.print(f"  [red]{summary['late_groups_dropped']} groups of flights were too late[/red]")
    return job


def _outcome(
    service: ServiceProcess,
    data: Dataset,
    workspace: Workspace,
    console: Console,
    streamed: Streamed | None,
    job: JobRun,
) -> int:
    # The cost first: the checks below also read, and do not belong to the job.
    usage = service.usage()
    windows = check.read_windows(workspace.output)
    expected = expected_windows(data)
    check.check_windows(windows, expected)
    queried_s = query_windows(workspace.store, windows)
    config = service.client_config
    for topic in data.topics:
        check.check_count(config, topic.name, topic.count)
    check.check_topic(check.latest_values(config, DELAYS.name), expected)
    console.print("[bold]5[/bold] The results")
    report.show_worst_hours(console, windows)
    console.print(
        f"  `odradek query` over the topic gives the same flights, departures and mean delays for all {len(windows):,} "
        f"windows in {queried_s:.1f} s, without a JVM; the job took {job.seconds:.0f} s with its start"
    )
    report.draw_chart(windows, workspace.chart)
    console.print(f"  Chart: {workspace.chart}", soft_wrap=True)
    report.show_cost(console, usage, streamed)
    counts = ", ".join(f"{topic.count:,} {topic.name}" for topic in data.topics)
    console.print(
        f"[bold]6[/bold] [green]Equal to pandas:[/green] {counts}; {len(expected):,} windows with "
        f"{int(expected['departures'].sum()):,} departures and {int(expected['cancelled'].sum()):,} cancellations, "
        "their means, 95th percentiles, worst departures, airlines and weather"
    )
    return 0


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end the demo as Ctrl-C does, so that it stops everything it started."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> Any:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
