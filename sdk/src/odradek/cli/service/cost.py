"""`odradek cost estimate`: the monthly cost of a workload, here and elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.command_group import CommandGroup
from odradek.cli.output import Output, OutputOption, show_data, show_rows
from odradek.cost.clients import Clients
from odradek.cost.tables import TARGET_PERCENT, TableMode
from odradek.cost.wal import WalClass
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra
from odradek.operations import plain
from odradek.operations.costs import best_saving, parse_rate, parse_time

if TYPE_CHECKING:
    from odradek.cost.model import Workload


class StageName(StrEnum):
    """A stage with known fixtures (cost/fixtures.py)."""

    DEV = "dev"
    PROD = "prod"


cost = typer.Typer(cls=CommandGroup, help="Estimate the cost of a workload.", no_args_is_help=True)

_LINGERS_MS = (None, 100.0, 1000.0)
_LINGER_MS_MAX = 1000.0  # that is advised
_CHART_RATES = [2.0**power for power in range(10, 31, 2)]  # bytes/s: 1 KiB to 1 GiB


@cost.command()
def estimate(
    rate: Annotated[str, typer.Option("--rate", help="Data written, such as 5MiB/s.")],
    record_bytes: Annotated[int, typer.Option("--record-bytes", min=1, help="Bytes of a record.")] = 1024,
    producers: Annotated[int, typer.Option("--producers", min=1, help="Number of producers.")] = 1,
    consumers: Annotated[
        int, typer.Option("--consumers", min=0, help="Number of consumers; each reads everything.")
    ] = 1,
    retention: Annotated[str, typer.Option("--retention", help="Retention time, such as 7d.")] = "7d",
    linger_ms: Annotated[
        float | None,
        typer.Option("--linger-ms", min=0, help="linger_ms of producers; several if left out, the default among them."),
    ] = None,
    partitions: Annotated[
        int, typer.Option("--partitions", min=1, help="Partitions of the topic; records are spread over them by key.")
    ] = 16,
    keep_deleted: Annotated[
        str, typer.Option("--keep-deleted", help="How long deleted objects are kept for a restore, such as 35d.")
    ] = "0d",
    clients: Annotated[
        Clients, typer.Option("--clients", help="Where clients are: in the region, behind a NAT gateway, elsewhere.")
    ] = Clients.AWS,
    tables: Annotated[
        TableMode,
        typer.Option(
            "--tables", help="Capacity of the log table: on demand, or provisioned for a load that is steady."
        ),
    ] = TableMode.ON_DEMAND,
    wal: Annotated[
        WalClass,
        typer.Option("--wal", help="Where uploads wait for their merge: the bucket, or S3 Express One Zone."),
    ] = WalClass.STANDARD,
    memory_mb: Annotated[
        int, typer.Option("--memory-mb", min=256, max=10_240, help="Memory of the functions produce and fetch.")
    ] = 1024,
    stage: Annotated[
        StageName, typer.Option("--stage", help="Whose alarms, schedule and queues are billed.")
    ] = StageName.PROD,
    chart: Annotated[Path | None, typer.Option("--chart", help="Draw cost against rate into this file.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Estimate the monthly cost from requests counted in a short run of the engine, and dated prices.

    Example: [bold]odradek cost estimate --rate 5MiB/s --record-bytes 1024 --producers 20 --consumers 3[/bold]
    """
    from odradek.cost.measure import measure
    from odradek.cost.model import Workload, own_cost, peer_costs, with_linger
    from odradek.cost.prices import PEERS_US_EAST_1, US_EAST_1

    load = Workload(
        parse_rate(rate),
        record_bytes,
        producers,
        consumers,
        parse_time(retention),
        partitions=partitions,
        keep_deleted_s=parse_time(keep_deleted),
        clients=clients,
        tables=tables,
        wal=wal,
        memory_mb=memory_mb,
        stage=stage.value,
    )
    lingers = _LINGERS_MS if linger_ms is None else (linger_ms,)
    if chart is not None:
        _refuse_format(chart)
    loads = [with_linger(load, linger) for linger in lingers]
    costs = [own_cost(load, asyncio.run(measure(load))) for load in loads]
    saving = best_saving(sum(costs[0].values()), asyncio.run(_choices(loads[0])))
    dates = sorted({US_EAST_1.date, PEERS_US_EAST_1.date})
    if not show_data(
        {
            "written_gib_month": load.gb_month,
            "kept_gib": load.kept_gb,
            "region": US_EAST_1.region,
            "tables": tables.value,
            "wal": wal.value,
            "memory_mb": memory_mb,
            "stage": stage.value,
            "prices_of": dates,
            "odradek": [
                {"linger_ms": linger, "requests_per_s": x.requests_per_s, "dollars_month": {**cost}}
                for linger, x, cost in zip(lingers, loads, costs, strict=True)
            ],
            "others": dict(peer_costs(load)),
            "saving": plain(saving),  # of the first linger
        },
        output,
    ):
        _print_table(load, lingers, loads, costs)
        typer.echo(
            f"Prices of {' and '.join(dates)}, {US_EAST_1.region}, without free tiers; requests counted by the engine; "
            f"function times from published latencies; alarms, logs and the queues of the stage {stage.value}."
        )
        if tables is TableMode.PROVISIONED:
            typer.echo(
                f"The log table is provisioned so that {TARGET_PERCENT}% of its capacity is in use, every hour alike: "
                "short peaks need more."
            )
        if wal is WalClass.EXPRESS:
            typer.echo(
                "Uploads are on S3 Express One Zone: an acknowledged record is in one availability zone until it is "
                "merged, about ten minutes (wal_zone_id of the stage)."
            )
        if saving is not None:
            typer.echo(f"{saving.change} saves {saving.percent} %: {Money(saving.dollars_month)} dollars a month")
    if chart is not None:
        _draw(load, lingers, chart)
        typer.echo(f"chart: {chart}", err=output is not Output.TABLE)


async def _choices(load: Workload) -> dict[str, float]:
    """Return what the same load costs with one option changed, by the option."""
    from dataclasses import replace

    from odradek.cost.measure import measure
    from odradek.cost.model import own_cost, with_linger

    changed = {}
    if load.linger_ms is None or load.linger_ms < _LINGER_MS_MAX:
        changed[f"linger_ms={_LINGER_MS_MAX:g} of producers"] = with_linger(load, _LINGER_MS_MAX)
    if load.tables is TableMode.ON_DEMAND:
        changed["A provisioned log table (--tables provisioned), for a steady load,"] = replace(
            load, tables=TableMode.PROVISIONED
        )
    return {
        name: sum(own_cost(changed_load, await measure(changed_load)).values())
        for name, changed_load in changed.items()
    }


def _print_table(
    load: Workload, lingers: Sequence[float | None], loads: Sequence[Workload], costs: Sequence[Mapping[str, float]]
) -> None:
    """Print US dollars per month by component and linger, and the cost of alternatives."""
    from odradek.cost.model import peer_costs

    names = [_name(linger) for linger in lingers]
    typer.echo(f"{load.gb_month:,.0f} GiB written per month, {load.kept_gb:,.0f} GiB kept")
    for name, workload in zip(names, loads, strict=True):
        typer.echo(f"{name}: {workload.requests_per_s:,.1f} requests/s of {workload.request_bytes:,} bytes")

    def row(title: str, dollars: Sequence[float]) -> dict[str, Any]:
        return {"US dollars a month": title, **dict(zip(names, map(Money, dollars), strict=False))}

    rows = [row(component, [cost[component] for cost in costs]) for component in costs[0] if costs[0][component]]
    rows.append(row("Odradek", [sum(cost.values()) for cost in costs]))
    rows += [row(name, [dollars]) for name, dollars in peer_costs(load).items()]
    show_rows(rows, ["US dollars a month", *names])


def _name(linger_ms: float | None) -> str:
    return "default linger" if linger_ms is None else f"linger {linger_ms:g} ms"


class Money(float):
    """Dollars with cents, for a table."""

    def __str__(self) -> str:
        return f"{float(self):,.2f}"


def _pyplot() -> Any:
    """Import Matplotlib without a screen. Raises MissingExtra."""
    with extra("charts"):
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt
    return plt


def _refuse_format(path: Path) -> None:
    """Check the file name before the measurement. Raises KafkaError(INVALID_CONFIG) for an unusable one."""
    formats = sorted(_pyplot().figure().canvas.get_supported_filetypes())
    if path.suffix[1:].lower() not in formats:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"--chart must end in one of {', '.join(formats)}, not {path.suffix!r}"
        )
    if not path.absolute().parent.is_dir():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--chart: the folder {path.parent} does not exist")


def _draw(load: object, lingers: Sequence[float | None], path: Path) -> None:
    """Draw cost against rate, both logarithmic."""
    from dataclasses import replace

    from odradek.cost.measure import measure
    from odradek.cost.model import Workload, own_cost, peer_costs, with_linger

    plt = _pyplot()
    assert isinstance(load, Workload)
    figure, axes = plt.subplots(figsize=(9, 6))
    megabytes = [rate / 2**20 for rate in _CHART_RATES]
    loads = [replace(load, bytes_per_s=rate) for rate in _CHART_RATES]
    for linger_ms in lingers:
        points = [with_linger(load, linger_ms) for load in loads]
        dollars = [sum(own_cost(point, asyncio.run(measure(point))).values()) for point in points]
        axes.plot(megabytes, dollars, marker="o", label=f"Odradek, {_name(linger_ms)}")
    for name in peer_costs(load):
        axes.plot(megabytes, [peer_costs(load)[name] for load in loads], linestyle="--", label=name)
    axes.set(xscale="log", yscale="log", xlabel="MiB/s written", ylabel="US dollars a month")
    axes.set_title(f"{load.producers} producers, {load.consumers} consumers")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
