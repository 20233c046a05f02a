"""`odradek top`: rates of topics, lag of groups, requests and cost, live on the terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, run
from odradek.cli.output import Output, OutputOption, show_data, table_of

if TYPE_CHECKING:
    from rich.console import Group

    from odradek.operations.cluster import Cluster
    from odradek.operations.metrics import Rates

_TOPICS_EVERY = 15  # looks between two lists of the topics


def top(
    interval: Annotated[float, typer.Option("--interval", "-i", min=0.5, help="Seconds between two looks.")] = 2.0,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="Stop after so many looks; 0: at Ctrl-C.")] = 0,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Topics and groups to show.")] = 15,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what happens now, until Ctrl-C. Against a deployed service each look is billed: choose a longer interval.

    Example: [bold]odradek top --interval 5[/bold]
    """
    run(bootstrap_servers, data_dir, lambda cluster: _show(cluster, interval, count, rows, output))


async def _show(cluster: Cluster, interval: float, count: int, rows: int, output: Output) -> None:
    from rich.console import Console
    from rich.live import Live

    if output is not Output.TABLE:
        async for rates in _watch(cluster, interval, count):
            show_data(_data(rates, rows), output)
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        async for rates in _watch(cluster, interval, count):
            console.print(_screen(rates, rows))
        return
    with Live(console=console, auto_refresh=False, screen=True) as live:
        async for rates in _watch(cluster, interval, count):
            live.update(_screen(rates, rows), refresh=True)


async def _watch(cluster: Cluster, interval: float, count: int) -> AsyncIterator[Rates]:
    from odradek.operations.metrics import look, rates

    topics = await cluster.admin.describe_topics()
    before = await look(cluster, topics, time.time_ns() // 1_000_000)
    shown = 0
    while not count or shown < count:
        await asyncio.sleep(interval)
        if shown % _TOPICS_EVERY == 0:
            topics = await cluster.admin.describe_topics()
        after = await look(cluster, topics, time.time_ns() // 1_000_000)
        yield rates(before, after)
        before, shown = after, shown + 1


def _data(rates: Rates, rows: int) -> dict[str, Any]:
    topics = sorted(rates.by_topic.items(), key=lambda item: (-item[1], item[0]))[:rows]
    groups = sorted(rates.lag.items(), key=lambda item: (-item[1], item[0]))[:rows]
    return {
        "at_ms": rates.at_ms,
        "records_per_s": round(rates.records, 1),
        "requests_per_s": _rounded(rates.requests),
        "bytes_in_per_s": _rounded(rates.bytes_in),
        "bytes_out_per_s": _rounded(rates.bytes_out),
        "dollars_per_hour": None if rates.dollars_hour is None else round(rates.dollars_hour, 6),
        "topics": [{"topic": name, "records_per_s": round(value, 1)} for name, value in topics],
        "groups": [{"group": name, "lag": int(lag)} for name, lag in groups],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _screen(rates: Rates, rows: int) -> Group:
    from rich.console import Group
    from rich.text import Text

    data = _data(rates, rows)
    head = [f"{data['records_per_s']:,} records/s"]
    if data["requests_per_s"] is not None:
        head += [
            f"{data['requests_per_s']:,} requests/s",
            f"in {data['bytes_in_per_s']:,} B/s",
            f"out {data['bytes_out_per_s']:,} B/s",
            f"${data['dollars_per_hour']:.4f}/h on AWS",
        ]
    parts: list[Any] = [Text("   ".join(head), style="bold"), Text("")]
    parts.append(table_of(data["topics"], ["topic", "records_per_s"]))
    if data["groups"]:
        parts += [Text(""), table_of(data["groups"], ["group", "lag"])]
    return Group(*parts)
