"""The first limit that a growing deployment reaches, and its cost: a model with the published limits as parameters.

    load        bytes/s, partitions, producers, how long they linger, how records spread over partitions
    demand      what the design asks of each service for it, a second: arithmetic on this page, one line a resource
    limit       what AWS publishes (Limits): hard, or a quota that support raises
    ratio       demand / limit; the largest one above 1 breaks first

How the design uses them (docs/ARCHITECTURE.md): one object a produce request, one update for each head in it (32
partitions share one), one function invocation each; reads in pieces of an answer's size; maintainers read and write
each byte again, as many at once as the stage `prod` has. What is late in maintenance is not lost: reads get dearer and
nothing is deleted. Nothing of it was run on AWS. What an update of a head costs is counted by `bench.engine.contention
--spread`, for 1 to 32 partitions in a request, one producer and 256: a line through these points.

    python -m bench.scale_model [--quick] [--linger-ms 1000] [--producer-mib-s 10] [--consumers 1] [--concurrency 5000]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from odradek.cost.prices import GIB, US_EAST_1, cost
from odradek.format.object_keys import WAL_PREFIXES
from odradek.limits import FUNCTION_BINARY_BYTES_MAX
from odradek.ports.meter import Usage
from rich.console import Console
from rich.table import Table

from infra.stages import FUNCTION_SIZES, STAGES

RESULTS = Path(__file__).parent / "results"
MIB = 1024 * 1024
MONTH_S = 730 * 3600


@dataclass(frozen=True)
class Limits:
    """Published on 2026-11-20 (AWS documentation: S3 performance, DynamoDB and Lambda quotas), and what is assumed."""

    put_per_prefix: float = 3_500  # a second
    wal_prefixes: int = WAL_PREFIXES
    get_per_prefix: float = 5_500
    write_units_per_key: float = 1_000  # a second: one partition's head
    write_units_per_table: float = 40_000  # on demand, default quota
    read_units_per_table: float = 40_000
    concurrency: float = 1_000  # of an account's functions, default quota
    requests_per_concurrency: float = 10  # a second, of a function URL
    concurrency_per_10_s: float = 1_000  # how fast one function scales
    answer_bytes: float = FUNCTION_BINARY_BYTES_MAX
    # Assumed; measure them in an account (make e2e, bench clients).
    put_s: float = 0.09  # of a small object
    upload_mib_s: float = 80  # of one function, to and from S3
    update_s: float = 0.0076
    # Write units of a head's update, pages, rows and evictions included: of a request, and of each batch in it.
    head_units: float = 1.2
    batch_units: float = 0.083
    crowded_head_units: float = 1.9  # where more producers write than the head keeps (docs/decisions/0061)
    crowded_batch_units: float = 0.16
    crowded_read_units: float = 2.1
    producers_kept: float = 4  # of 24 partitions each
    updates_at_once: int = 16  # of one invocation
    get_s: float = 0.06
    plan_calls: float = 4  # of a plan for one partition that has rows
    plan_calls_at_once: int = 32
    task_calls: float = 20  # of one partition's task, beside the bytes
    tasks_at_once: int = 8  # of one maintainer
    rewritten: float = 2.0  # how often maintenance writes each byte: a merge, and a merge of merges
    maintenance_every_s: float = 300
    maintenance_workers: int = STAGES["prod"].maintenance_workers
    queue_polls_per_s: float = 5 / 20  # of an idle event source mapping: 5 long polls of 20 s (Lambda's documentation)
    metadata_bytes_per_partition: float = 64


@dataclass(frozen=True)
class Published:
    """A vendor's published costs of its log on an object store; its own measurements, prices and terms.

    Attributes:
        dollars_month: of a month, all told.
        storage_month: what of it is storage; None: not said.
    """

    name: str
    gib_s: float
    reads: float  # GiB read for each one written
    dollars_month: float
    storage_month: float | None
    source: str


PUBLISHED = (
    Published(
        "AutoMQ, AWS, 256 partitions",
        1,
        1,
        12_899,
        5_961,
        "automq.com/docs/automq/benchmarks/automq-vs-apache-kafka-benchmarks-and-cost",
    ),
    Published("Bufstream, Google Cloud, less than", 100, 3, 1_000_000, None, "buf.build/blog/bufstream-on-spanner"),
    Published("WarpStream, 1.5 times that, by Buf", 100, 3, 1_500_000, None, "buf.build/blog/bufstream-on-spanner"),
)


@dataclass(frozen=True)
class Load:
    """The clients' load."""

    bytes_per_s: float
    partitions: int
    keyed: bool = False  # records spread over all partitions; else a producer fills one batch at a time (sticky)
    record_bytes: int = 1024
    producer_bytes_per_s: float = 10 * MIB  # of one process
    linger_s: float = 1.0
    batch_bytes: int = 1_000_000
    consumers: int = 1  # readers of everything
    per_head: int = 32  # partitions that share a head
    gateway: bool = False  # producers' batches meet in gateways, which upload for many at once

    @property
    def request_bytes(self) -> float:
        """Bytes of one produce request: what a producer gathers, at most what a function takes."""
        gathered = self.bytes_per_s if self.gateway else self.producer_bytes_per_s
        most = 8 * MIB if self.gateway else FUNCTION_BINARY_BYTES_MAX
        return min(max(self.record_bytes, min(gathered, self.bytes_per_s) * self.linger_s), most)

    @property
    def requests_per_s(self) -> float:
        return self.bytes_per_s / self.request_bytes

    @property
    def partitions_per_request(self) -> float:
        records = self.request_bytes / self.record_bytes
        if self.keyed:
            return self.partitions * (1 - math.pow(1 - 1 / self.partitions, records))
        return min(self.partitions, max(1.0, self.request_bytes / self.batch_bytes))

    @property
    def heads(self) -> int:
        return math.ceil(self.partitions / self.per_head)

    @property
    def heads_per_request(self) -> float:
        """Of partitions that are drawn by chance."""
        return self.heads * (1 - math.pow(1 - 1 / self.heads, self.partitions_per_request))

    @property
    def updates_per_s(self) -> float:
        return self.requests_per_s * self.heads_per_request

    @property
    def producers(self) -> float:
        return 1.0 if self.gateway else max(1.0, self.bytes_per_s / self.producer_bytes_per_s)


@dataclass(frozen=True)
class Demand:
    """One resource: what is asked of it, what it gives."""

    resource: str
    demand: float
    limit: float
    hard: bool  # no quota that can be raised: the design or the clients have to change
    remedy: str

    @property
    def ratio(self) -> float:
        return self.demand / self.limit


def demands(load: Load, limits: Limits) -> list[Demand]:
    """Return the load's demand on each resource."""
    producers_of_a_head = load.producers * load.heads_per_request / load.heads  # within a few requests
    is_crowded = producers_of_a_head > limits.producers_kept
    head_units, batch_units = (
        (limits.crowded_head_units, limits.crowded_batch_units)
        if is_crowded
        else (limits.head_units, limits.batch_units)
    )
    batches_per_s = load.requests_per_s * load.partitions_per_request
    writes = load.updates_per_s * head_units + batches_per_s * batch_units
    looks = load.updates_per_s * limits.crowded_read_units if is_crowded else 0.0
    produce_s = (
        limits.put_s
        + load.request_bytes / MIB / limits.upload_mib_s
        + math.ceil(load.heads_per_request / limits.updates_at_once) * limits.update_s
    )
    fetch_bytes = min(limits.answer_bytes, max(load.request_bytes, load.bytes_per_s / load.partitions))
    fetches = load.consumers * load.bytes_per_s / fetch_bytes
    fetch_s = limits.get_s + fetch_bytes / MIB / limits.upload_mib_s
    produce_busy = 0.0 if load.gateway else load.requests_per_s * produce_s
    fetch_busy = max(fetches * fetch_s, load.consumers)
    maintainers = busy_maintainers(load, limits)
    return [
        Demand(
            "object PUT/s of the WAL",
            load.requests_per_s,
            limits.put_per_prefix * limits.wal_prefixes,
            True,
            "more prefixes",
        ),
        Demand("object GET/s, one prefix", fetches, limits.get_per_prefix, True, "read merged segments"),
        Demand(
            "write units/s of one head",
            writes / load.heads,
            limits.write_units_per_key,
            True,
            "fewer partitions a head",
        ),
        Demand("write units/s of the log table", writes, limits.write_units_per_table, False, "quota; sticky batches"),
        Demand("read units/s of the log table", fetches + looks, limits.read_units_per_table, False, "quota"),
        Demand(
            "functions at once", produce_busy + fetch_busy + maintainers, limits.concurrency, False, "quota; a gateway"
        ),
        Demand(
            "requests/s of a function URL",
            0.0 if load.gateway else load.requests_per_s,
            limits.concurrency * limits.requests_per_concurrency,
            False,
            "quota; longer linger",
        ),
        Demand("maintainers at once", maintainers, limits.maintenance_workers, False, "maintenance_workers, to 1,000"),
        Demand(
            "seconds of a maintenance plan",
            load.partitions * limits.plan_calls * limits.update_s / limits.plan_calls_at_once,
            float(FUNCTION_SIZES["maintenance"].timeout_s),
            True,
            "plan a part of the topics each",
        ),
        Demand(
            "bytes of all topics' metadata",
            load.partitions * limits.metadata_bytes_per_partition,
            limits.answer_bytes,
            True,
            "ask by topic",
        ),
    ]


def busy_maintainers(load: Load, limits: Limits) -> float:
    """Maintainers at work at a time: for the bytes that they read and write, and for the calls of each task."""
    rewritten_mib = load.bytes_per_s * limits.rewritten * 2 / MIB  # read and written
    calls_s = load.partitions * limits.task_calls * limits.update_s / limits.tasks_at_once / limits.maintenance_every_s
    return rewritten_mib / limits.upload_mib_s + calls_s


def dollars_a_month(load: Load, limits: Limits) -> dict[str, float]:
    """Of us-east-1's list prices, by component; a week is kept. Instances of gateways are not in it."""
    by_name = {demand.resource: demand.demand for demand in demands(load, limits)}
    merging = by_name["maintainers at once"]
    busy = by_name["functions at once"] - merging
    memory = FUNCTION_SIZES["produce"].memory_mb / 1024
    merge_memory = FUNCTION_SIZES["maintainer"].memory_mb / 1024
    requests = 0.0 if load.gateway else load.requests_per_s
    fetches = by_name["object GET/s, one prefix"]
    segments = load.bytes_per_s * limits.rewritten / (64 * MIB) * 2
    sent = 3 * load.partitions / 10 / limits.maintenance_every_s
    month = Usage(
        function_requests=round((requests + fetches) * MONTH_S),
        function_gb_seconds=(busy * memory + merging * merge_memory) * MONTH_S,
        table_write_units=by_name["write units/s of the log table"] * MONTH_S,
        table_read_units=by_name["read units/s of the log table"] * MONTH_S,
        object_put_requests=round((load.requests_per_s + segments) * MONTH_S),
        object_get_requests=round((fetches + load.requests_per_s * limits.rewritten) * MONTH_S),
        queue_requests=round((limits.queue_polls_per_s + sent) * MONTH_S),
    )
    return dict(cost(month).components) | {
        "storage, 7 days": load.bytes_per_s * 7 * 86_400 / GIB * US_EAST_1.object_gb_month
    }


SCENARIOS: dict[str, Load] = {
    "1 GiB/s, 1,000 partitions": Load(GIB, 1_000),
    "10 GiB/s, 1,000 partitions": Load(10 * GIB, 1_000),
    "100 GiB/s, 10,000 partitions": Load(100 * GIB, 10_000),
    "1 GiB/s, 100,000 partitions": Load(GIB, 100_000),
    "1 GiB/s, 100,000, by key": Load(GIB, 100_000, keyed=True),
    "1 GiB/s, 1,000, linger 5 ms": Load(GIB, 1_000, linger_s=0.005),
}


def limits_of(load: Load, limits: Limits) -> tuple[Demand, float]:
    """Return the resource that runs out first, and the GiB/s of the same shape at which it does."""
    worst = max(demands(load, limits), key=lambda demand: demand.ratio)
    low, high = 0.0, 1e6
    for _ in range(60):
        middle = (low + high) / 2
        scaled = replace(load, bytes_per_s=middle * GIB)
        fits = all(demand.ratio <= 1 for demand in demands(scaled, limits)) if middle else True
        low, high = (middle, high) if fits else (low, middle)
    return worst, low


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="no charts")
    parser.add_argument("--linger-ms", type=float)
    parser.add_argument("--producer-mib-s", type=float, help="of one producing process")
    parser.add_argument("--consumers", type=int)
    for name, default in asdict(Limits()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    arguments = parser.parse_args(argv)
    limits = Limits(**{name: getattr(arguments, name) for name in asdict(Limits())})
    change: dict[str, Any] = {}
    if arguments.linger_ms is not None:
        change["linger_s"] = arguments.linger_ms / 1000
    if arguments.producer_mib_s is not None:
        change["producer_bytes_per_s"] = arguments.producer_mib_s * MIB
    if arguments.consumers is not None:
        change["consumers"] = arguments.consumers
    loads = {name: replace(load, **change) for name, load in SCENARIOS.items()}
    console = Console(width=180)
    answers = {name: answer(load, limits) for name, load in loads.items()}
    show(console, answers)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "scale_model.json").write_text(
        json.dumps({"limits": asdict(limits), "scenarios": answers}, indent=2) + "\n"
    )
    if not arguments.quick:
        for path in charts(limits, replace(Load(GIB, 1_000), **change)):
            console.print(f"chart: {path}")
    return 0


def answer(load: Load, limits: Limits) -> dict[str, Any]:
    """Everything that is said of one load."""
    worst, gib_s = limits_of(load, limits)
    money = dollars_a_month(load, limits)
    functions = next(demand for demand in demands(load, limits) if demand.resource == "functions at once")
    return {
        "load": asdict(load),
        "request_bytes": load.request_bytes,
        "updates_per_s": load.updates_per_s,
        "ratios": {demand.resource: demand.ratio for demand in demands(load, limits)},
        "over": {demand.resource: demand.remedy for demand in demands(load, limits) if demand.ratio > 1},
        "first": worst.resource,
        "first_ratio": worst.ratio,
        "fits_up_to_gib_s": gib_s,
        "scale_out_s": functions.demand / limits.concurrency_per_10_s * 10,
        "dollars_a_month": money,
        "dollars_per_gib": sum(money.values()) / (load.bytes_per_s * MONTH_S / GIB),
    }


def show(console: Console, answers: dict[str, dict[str, Any]]) -> None:
    """Two tables: what breaks, and what each costs."""
    table = Table(
        "load", "breaks first", "asked / given", "also over", "fits up to GiB/s", "$ a GiB", "$ a month", box=None
    )
    for name, result in answers.items():
        others = [resource for resource in result["over"] if resource != result["first"]]
        table.add_row(
            name,
            result["first"] if result["first_ratio"] > 1 else "nothing",
            f"{result['first_ratio']:.2g}",
            ", ".join(others) or "-",
            f"{result['fits_up_to_gib_s']:.2g}",
            f"{result['dollars_per_gib']:.4f}",
            f"{sum(result['dollars_a_month'].values()):,.0f}",
        )
    console.print(table)
    names = list(next(iter(answers.values()))["dollars_a_month"])
    money = Table("dollars a month", *names, box=None)
    for name, result in answers.items():
        money.add_row(name, *(f"{result['dollars_a_month'][component]:,.0f}" for component in names))
    console.print(money)
    beside = Table("published", "GiB/s", "read", "$ a GiB", "$ a month", "without storage", "source", box=None)
    for one in PUBLISHED:
        beside.add_row(
            one.name,
            f"{one.gib_s:g}",
            f"{one.reads:g} times",
            f"{one.dollars_month / one.gib_s / MONTH_S:.4f}",
            f"{one.dollars_month:,.0f}",
            "-" if one.storage_month is None else f"{one.dollars_month - one.storage_month:,.0f}",
            one.source,
        )
    console.print(beside)


def charts(limits: Limits, load: Load) -> list[Path]:
    """Demand over limit, and dollars a GiB, against the rate; demand over limit against the number of partitions."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rates = [2.0**power for power in range(-6, 8)]
    counts = [10.0**power for power in range(1, 6)]
    by_rate = [replace(load, bytes_per_s=rate * GIB) for rate in rates]
    by_count = [replace(load, partitions=int(count), keyed=True) for count in counts]
    made = []
    for file, label, xs, loads in (
        ("scale_rate.png", "GiB/s written, 1,000 partitions", rates, by_rate),
        ("scale_partitions.png", "partitions, 1 GiB/s spread by key", counts, by_count),
    ):
        figure, axes = pyplot.subplots(figsize=(9, 5))
        for i, demand in enumerate(demands(load, limits)):
            axes.plot(xs, [demands(one, limits)[i].ratio for one in loads], label=demand.resource)
        axes.axhline(1, color="black", linewidth=1)
        axes.set(xscale="log", yscale="log", xlabel=label, ylabel="asked / given", title="What breaks first")
        axes.legend(fontsize="x-small")
        made.append(_save(figure, file))
    figure, axes = pyplot.subplots(figsize=(9, 5))
    lines: dict[str, Callable[[Load], Load]] = {
        "linger 1 s": lambda one: one,
        "linger 100 ms": lambda one: replace(one, linger_s=0.1),
        "linger 5 ms": lambda one: replace(one, linger_s=0.005),
    }
    for name, changed in lines.items():
        costs = [sum(dollars_a_month(changed(one), limits).values()) for one in by_rate]
        axes.plot(rates, [dollars / (rate * MONTH_S) for dollars, rate in zip(costs, rates, strict=True)], label=name)
    axes.set(xscale="log", yscale="log", xlabel="GiB/s written", ylabel="dollars a GiB", title="What it costs")
    axes.legend()
    made.append(_save(figure, "scale_cost.png"))
    return made


def _save(figure: Any, name: str) -> Path:
    path = RESULTS / name
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return path


if __name__ == "__main__":
    raise SystemExit(main())
