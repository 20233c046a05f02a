"""The results of the demo: the ten worst hours, a chart, the cost on AWS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from odradek.cli.demo.dataset import NEW_YORK
from odradek.cli.demo.group import Member
from odradek.cli.demo.stream import Streamed
from odradek.cost.prices import GIB, cost
from odradek.ports.meter import Usage

if TYPE_CHECKING:
    import pandas as pd

WORST_HOURS = 10
_DEPARTURES_MIN = 5  # the mean of an hour with fewer says little
_VISIBILITY_MILES = (0, 1, 3, 6, 9.9, 10)
_WIND_MPH = (0, 5, 10, 15, 20, 100)
_COLOURS = {"EWR": "#1b6ca8", "JFK": "#d1495b", "LGA": "#3a7d44"}


def show_group(console: Console, members: Sequence[Member], records: int) -> None:
    """Print share and lag of each member."""
    table = Table(title="Consumer group over flights", title_justify="left", box=None)
    for name in ("member", "partitions", "records", "share", "lag"):
        table.add_column(name, justify="left" if name in ("member", "partitions") else "right")
    for member in members:
        partitions = ", ".join(str(tp.partition) for tp in sorted(member.partitions))
        share = f"{member.records / records:.1%}" if records else "-"
        table.add_row(member.name, partitions, f"{member.records:,}", share, f"{member.lag:,}")
    console.print(table)


def show_worst_hours(console: Console, windows: pd.DataFrame) -> None:
    """Print the hours with the greatest mean delay, in New York's time."""
    busy = windows[windows["departures"] >= _DEPARTURES_MIN]
    worst = busy.sort_values("mean_delay_minutes", ascending=False).head(WORST_HOURS)
    table = Table(
        title=f"The {len(worst)} worst hours of 2013 (at least {_DEPARTURES_MIN} departures; delays in minutes)",
        title_justify="left",
        box=None,
    )
    for name in ("from", "hour", "left", "cancelled", "mean", "p95", "worst", "flight", "mph", "miles"):
        is_text = name in ("from", "hour", "flight")
        table.add_column(name, justify="left" if is_text else "right", no_wrap=name != "flight")
    for row in worst.to_dict("records"):
        table.add_row(
            row["origin"],
            f"{row['window_start'].tz_convert(NEW_YORK):%d %b %H:%M}",
            f"{row['departures']:.0f}",
            f"{row['cancelled']:.0f}",
            f"{row['mean_delay_minutes']:.0f}",
            f"{row['p95_delay_minutes']:.0f}",
            f"{row['worst_delay_minutes']:.0f}",
            f"{row['worst_carrier']}{row['worst_flight']:.0f} {row['worst_destination']}",
            _number(row["wind_speed_mph"]),
            _number(row["visibility_miles"]),
        )
    console.print(table)
    console.print(
        "flight: of the worst delay; mph: wind; miles: visibility; hours: New York's",
        highlight=False,
    )


def _number(value: Any) -> str:
    return "-" if value is None or value != value else f"{value:.0f}"


def draw_chart(windows: pd.DataFrame, path: Path) -> None:
    """Draw mean delay by hour of the day and origin, beside wind and visibility. Raises OSError."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    hour = windows["window_start"].dt.tz_convert(NEW_YORK).dt.hour
    figure = pyplot.figure(figsize=(13, 5.5), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.7, 1))
    by_hour = figure.add_subplot(grid[:, 0])
    for origin, colour in _COLOURS.items():
        mine = windows[windows["origin"] == origin]
        means = _mean_delay(mine, hour[mine.index])
        by_hour.plot(means.index, means, marker="o", markersize=4, color=colour, label=origin)
    by_hour.set(title="Departure delay by scheduled hour", xlabel="hour in New York", ylabel="mean delay, minutes")
    by_hour.set_xticks(range(5, 24, 2))
    by_hour.set_xlim(4.5, 23.5)  # too few flights leave at night
    by_hour.legend(frameon=False)
    conditions = (
        ("wind_speed_mph", _WIND_MPH, "Wind, mph", ("0-5", "5-10", "10-15", "15-20", "20+")),
        ("visibility_miles", _VISIBILITY_MILES, "Visibility, miles", ("0-1", "1-3", "3-6", "6-9", "10")),
    )
    for row_number, (column, edges, title, labels) in enumerate(conditions):
        _draw_condition(figure.add_subplot(grid[row_number, 1]), windows, column, edges, title, labels)
    figure.suptitle("Departures from New York in 2013, by the job flight_delays")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_condition(
    axes: Any, windows: pd.DataFrame, column: str, edges: Sequence[float], title: str, labels: Sequence[str]
) -> None:
    import pandas as pd

    bins = pd.cut(windows[column].astype("float64"), list(edges), labels=list(labels), include_lowest=True)
    width = 0.8 / len(_COLOURS)
    for i, (origin, colour) in enumerate(_COLOURS.items()):
        mine = windows[windows["origin"] == origin]
        means = _mean_delay(mine, bins[mine.index]).reindex(list(labels))
        axes.bar([x + (i - 1) * width for x in range(len(labels))], means, width, color=colour, label=origin)
    axes.set(title=title, ylabel="mean delay, minutes")
    axes.set_xticks(range(len(labels)), list(labels))


def _mean_delay(windows: pd.DataFrame, by: pd.Series[Any]) -> pd.Series[float]:
    """Return the mean delay of the departures (not of the windows) in each group."""
    delay = (windows["mean_delay_minutes"] * windows["departures"]).groupby(by, observed=True).sum()
    return delay / windows["departures"].groupby(by, observed=True).sum()


def show_cost(console: Console, usage: Usage, streamed: Streamed | None) -> None:
    """Print billable units and cost of everything that went through the functions."""
    bill = cost(usage)
    quantities = {
        "table writes": f"{usage.table_write_units:,.0f} write units",
        "table reads": f"{usage.table_read_units:,.0f} read units",
        "object puts": f"{usage.object_put_requests:,} requests, {usage.object_bytes_written / 1e6:,.1f} MB",
        "object gets": f"{usage.object_get_requests:,} requests, {usage.object_bytes_read / 1e6:,.1f} MB",
        "function requests": f"{usage.function_requests:,} requests",
        "function time": f"{usage.function_gb_seconds:,.1f} GB-s",
    }
    table = Table(title=f"What the functions would have cost ({bill.prices.region}, {bill.prices.date})", box=None)
    table.title_justify = "left"
    table.add_column("what")
    table.add_column("how much", justify="right")
    table.add_column("dollars", justify="right")
    for name, dollars in bill.components.items():
        table.add_row(name, quantities.get(name, ""), f"{dollars:.6f}")
    table.add_section()
    table.add_row("total", "", f"[bold]{bill.total:.4f}[/bold]")
    console.print(table)
    if streamed is not None and streamed.payload_bytes:
        console.print(
            f"  That is ${bill.per_million_records(streamed.records):.3f} per million records and "
            f"${bill.total / streamed.payload_bytes * GIB:.3f} per GiB of records, written and read by the group. "
            "Storage, and what Spark reads directly from the store, are not included.",
            highlight=False,
        )
