"""The monthly cost of a workload, here and elsewhere. Pure; what the engine asks of the store is measured
(cost/measure.py), the rest is the arithmetic below. `python -m bench.cost` counts the same workloads with real clients
and functions in virtual time, and a test compares both.

    requests     a producer sends when its request in flight is answered or, with `linger_ms`, when that is over
                 (client/producer/pace.py); or when a batch is full
    partitions   records are spread by key: a request has records for about as many partitions as it has records
    append       units of one request of that size, by so many producers, with its spills
    merge        units of the merges of one request's data, and of a merge of all partitions: as often as the stage
                 plans, where there are enough rows by then; a third more for merges of what was merged
    tables       on demand, or the log table provisioned for a steady load (cost/tables.py)
    fetch        each consumer reads everything once. It fetches as often as requests arrive, and lets the function
                 wait, or rests where they are rare (client/consumer/pace.py); each look reads all heads
    commit       each consumer's group commits all partitions, and its member sends a heartbeat, every five seconds
    plan, sweep  at the stage's period, and every hour
    function     memory (infra/stages.py; of produce and fetch as the workload says) times the time that the store takes
                 (published latencies) and the processor's share, the smaller the memory the longer
    logs         a line of each busy process every `log_interval_ms`
    fixed        alarms, dashboard, schedule, the queue's polls (cost/fixtures.py)
    WAL          uploads in the main bucket, or on S3 Express One Zone: other prices and other times (cost/wal.py)
    storage      rate times retention, in the object store; nothing is replicated by us
    deleted      where deleted objects are kept for a restore: uploads once they are merged, segments once they are
                 merged into larger ones or past the retention, each for so long; a byte is in one of each
    egress       where clients are outside: through a NAT gateway, or the internet
    left out     free tiers, support, compression (ours and theirs alike), people

Others: replicas times retention on disks, two thirds of the traffic across zones, as many brokers as the rate needs, at
least three.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from odradek.cost.clients import Clients
from odradek.cost.fixtures import FIXTURES, MONTH_S, fixed_cost
from odradek.cost.prices import GIB, PEERS_US_EAST_1, US_EAST_1, PeerPrices, PriceList, cost
from odradek.cost.tables import TableMode, provisioned_alarms, provisioned_cost
from odradek.cost.wal import WAL_TIMES, WalClass, wal_storage
from odradek.ports.meter import Usage
from odradek.settings import Settings

IN_FLIGHT = 5  # requests of one producer
BATCH_BYTES = 1_000_000  # the SDK's batch_size
MEMORY_MB = 1024  # of the functions produce and fetch, if a stage does not say otherwise
MEMORY_MB_OF = {"coordinator": 512, "maintenance": 1024, "maintainer": 1769}
_VCPU_MB = 1769  # that have a whole processor
CALL_S = 0.013  # network and Lambda's own part of a call: a client waits for it, nobody is billed
CPU_S, CPU_S_PER_MB = 0.0025, 0.007  # of a function with 1 GB, 0.58 of a processor
CPU_S_PER_PARTITION = 0.00026  # of a request to produce or fetch
UPDATE_S = 0.0065  # the mean around the published median
PUT_S, GET_S = WAL_TIMES[WalClass.STANDARD].put_s, WAL_TIMES[WalClass.STANDARD].get_s
ITEM_APPEND_S = 2 * UPDATE_S + 0.004
UPDATES_S = UPDATE_S + 0.008  # of an append to an object: the slowest of several updates
MAINTAINER_CALLS_AT_ONCE = 4
HEARTBEAT_S = COMMIT_S = 5.0
HEARTBEAT_UNITS = Usage(table_write_units=1, table_read_units=1)
REST_S_MIN, REST_S_MAX, REST_SHARE = 0.1, 1.0, 0.25  # client/consumer/pace.py
LOOK_S = 0.25  # between two looks of a long poll, at most (settings.poll_interval_ms_max)
LOG_LINE_BYTES = 330
SWEEP_S = 3600.0
# An upload waits for its merge, then until it is as old as what a sweep takes, then for the sweep.
WAL_KEPT_S = Settings().merge_age_ms / 1000 + Settings().sweep_horizon_ms / 1000 + SWEEP_S / 2
_MERGED_AGAIN = 4 / 3  # a segment grows by the fourfold
STAGE = "prod"
_CROSSING = 2 / 3  # of the traffic, with clients and brokers spread over three zones
_REPLICAS = 3


@dataclass(frozen=True, slots=True)
class Workload:
    """The load on a log."""

    bytes_per_s: float
    record_bytes: int = 1024
    producers: int = 1
    consumers: int = 1  # groups of one member, each reads everything once
    retention_s: float = 7 * 86_400
    linger_ms: float | None = None  # None: the SDK's default, a request at a time
    partitions: int = 16
    keep_deleted_s: float = 0  # how long deleted objects are kept (infra/stages.py, keep_deleted_days)
    clients: Clients = Clients.AWS
    tables: TableMode = TableMode.ON_DEMAND
    wal: WalClass = WalClass.STANDARD
    memory_mb: int = MEMORY_MB  # of the functions produce and fetch
    stage: str = STAGE  # whose alarms, schedule and queues are billed: dev or prod (cost/fixtures.py)

    def processor_s(self, seconds: float) -> float:
        """Return what takes the processor of a function with 1 GB so long, with the memory of this workload's."""
        return seconds * MEMORY_MB / min(self.memory_mb, _VCPU_MB)

    @property
    def requests_per_s(self) -> float:
        """The produce requests per second of all producers."""
        rate = self.bytes_per_s / max(1, self.producers)
        if rate <= 0:
            return 0.0
        latency_s = append_s(self, is_item=False) + CALL_S
        if self.linger_ms is None:
            by_time = 1 / latency_s
        else:
            by_time = min(1000 / max(self.linger_ms, 1), IN_FLIGHT / latency_s)
        return self.producers * max(rate / BATCH_BYTES, min(by_time, rate / self.record_bytes))

    @property
    def request_bytes(self) -> int:
        """The bytes of one produce request."""
        requests = self.requests_per_s
        return max(self.record_bytes, math.ceil(self.bytes_per_s / requests)) if requests else self.record_bytes

    @property
    def partitions_per_request(self) -> float:
        """The partitions for which one request has records, spread by key."""
        if self.partitions <= 1:
            return 1.0
        records = self.request_bytes / self.record_bytes
        return self.partitions * (1 - math.pow(1 - 1 / self.partitions, records))

    @property
    def gb_month(self) -> float:
        return self.bytes_per_s * MONTH_S / GIB

    @property
    def kept_gb(self) -> float:
        return self.bytes_per_s * self.retention_s / GIB


NOTHING = Usage()


@dataclass(frozen=True, slots=True)
class Measured:
    """Counted requests of the engine to the stores."""

    per_append: Usage = NOTHING  # a produce request, spills included
    per_merge: Usage = NOTHING  # of all partitions, once
    per_merged_append: Usage = NOTHING  # of one request's data in a merge
    per_fetch: Usage = NOTHING  # of one request's data, the look at all heads included
    per_look: Usage = NOTHING  # at all heads
    per_commit: Usage = NOTHING  # of all partitions
    per_plan: Usage = NOTHING  # and the look at the backlog
    per_sweep: Usage = NOTHING  # of nothing
    is_item: bool = False  # stored as an item, not as an object


def append_s(load: Workload, *, is_item: bool) -> float:
    """Return the seconds that an append waits for the stores."""
    return ITEM_APPEND_S if is_item else WAL_TIMES[load.wal].put_s + UPDATES_S


def own_cost(load: Workload, measured: Measured, prices: PriceList = US_EAST_1) -> Mapping[str, float]:
    """Return dollars per month, by component."""
    usage = own_usage(load, measured)
    dollars = dict(cost(sum(usage.values(), start=Usage()), prices).components)
    dollars["logs"] = _log_gb(load, measured) * prices.logs_gb_ingested
    dollars.update(fixed_cost(FIXTURES[load.stage], prices))
    if load.tables is TableMode.PROVISIONED:
        dollars.update(provisioned_cost(usage, prices))
        dollars["alarms"] += provisioned_alarms(prices)
    dollars["storage"] = load.kept_gb * prices.object_gb_month
    if load.wal is WalClass.EXPRESS and not measured.is_item:
        dollars["express storage"] = wal_storage(load.bytes_per_s, WAL_KEPT_S, prices)
    if load.keep_deleted_s:
        deleted = load.bytes_per_s * load.keep_deleted_s * deleted_copies(load, measured.is_item) / GIB
        dollars["deleted objects"] = deleted * prices.object_gb_month
    dollars.update(_egress(load, prices))
    return dollars


def own_usage(load: Workload, measured: Measured) -> Mapping[str, Usage]:
    """Return the units of a month, by function."""
    appends = load.requests_per_s * MONTH_S
    append_mb = load.request_bytes / 1e6
    produce_cpu_s = CPU_S + append_mb * CPU_S_PER_MB + load.partitions_per_request * CPU_S_PER_PARTITION
    produce_s = append_s(load, is_item=measured.is_item) + load.processor_s(produce_cpu_s)
    calls_per_s, waits_s, looks = fetches(load)
    calls = calls_per_s * MONTH_S * load.consumers
    reads = _data(measured)
    fetch_cpu_s = CPU_S + append_mb * CPU_S_PER_MB + load.partitions * CPU_S_PER_PARTITION
    fetch_s = load.processor_s(fetch_cpu_s) + UPDATE_S + waits_s
    gets_s = (
        WAL_TIMES[load.wal].get_s * min(1.0, load.requests_per_s / calls_per_s) if reads.object_get_requests else 0.0
    )
    tasks = min(load.partitions, load.requests_per_s * 300) / 300 * MONTH_S
    merges = merges_per_s(load) * MONTH_S
    merge_s = (
        _calls_s(measured.per_merge) * merges
        + (_calls_s(measured.per_merged_append) + append_mb * CPU_S_PER_MB) * appends
    )
    beats = MONTH_S / HEARTBEAT_S * load.consumers
    commits = MONTH_S / max(COMMIT_S, 1 / load.requests_per_s) * load.consumers if load.requests_per_s else 0.0
    plans = MONTH_S / 60 / FIXTURES[load.stage].plan_every_minutes
    usage = {
        "produce": _sum((measured.per_append, appends)) + _function(load.memory_mb, appends, produce_s),
        "fetch": _sum((measured.per_look, calls * looks), (reads, appends * load.consumers))
        + _function(load.memory_mb, calls, fetch_s + gets_s),
        "coordinator": _sum((HEARTBEAT_UNITS, beats), (measured.per_commit, commits))
        + _function(MEMORY_MB_OF["coordinator"], beats + commits, 2 * UPDATE_S + CPU_S),
        "maintenance": _sum((measured.per_plan, plans)) + _function(MEMORY_MB_OF["maintenance"], plans, 0.1),
        "maintainer": _sum(
            (measured.per_merge, merges), (measured.per_merged_append, appends), (measured.per_sweep, MONTH_S / SWEEP_S)
        )
        + Usage(queue_requests=round(tasks * 3 / 10))
        + _function(MEMORY_MB_OF["maintainer"], tasks / 10, 0.0)
        + Usage(function_gb_seconds=merge_s * MEMORY_MB_OF["maintainer"] / 1024),
    }
    return usage if load.wal is WalClass.STANDARD or measured.is_item else _on_express(load, measured, usage)


def _on_express(load: Workload, measured: Measured, usage: Mapping[str, Usage]) -> Mapping[str, Usage]:
    """Return the units with those of uploads as S3 Express One Zone's; segments stay in the main bucket."""
    written = round(load.bytes_per_s * MONTH_S)
    merged_gets = round(measured.per_merged_append.object_get_requests * load.requests_per_s * MONTH_S)
    uploads = {
        "produce": Usage(object_put_requests=usage["produce"].object_put_requests, object_bytes_written=written),
        "fetch": Usage(
            object_get_requests=usage["fetch"].object_get_requests, object_bytes_read=written * load.consumers
        ),
        "maintainer": Usage(object_get_requests=merged_gets, object_bytes_read=written),
    }
    return {name: _moved(used, uploads[name]) if name in uploads else used for name, used in usage.items()}


def _moved(used: Usage, uploads: Usage) -> Usage:
    """Return the units with some of the object requests, whose bytes were not counted, on S3 Express One Zone."""
    puts, gets = uploads.object_put_requests, uploads.object_get_requests
    return used - Usage(object_put_requests=puts, object_get_requests=gets) + uploads.on_express()


def fetches(load: Workload) -> tuple[float, float, float]:
    """Return the fetches per second of one consumer, the seconds that each waits in the function, and its looks."""
    if not load.consumers:
        return 1.0, 0.0, 0.0
    gap_s = 1 / load.requests_per_s if load.requests_per_s else math.inf
    rest_s = min(REST_SHARE * gap_s, REST_S_MAX)
    own_s = CALL_S + CPU_S + UPDATE_S
    if rest_s >= REST_S_MIN:
        return 1 / (rest_s + own_s), 0.0, 1.0
    period_s = max(gap_s, own_s + GET_S)
    waits_s = max(0.0, period_s - own_s - GET_S)
    return 1 / period_s, waits_s, 1.0 + min(2.0, waits_s / 0.06)


def merges_per_s(load: Workload) -> float:
    """Return how often the partitions are merged: with a plan, once they have rows enough or old enough."""
    if not load.requests_per_s:
        return 0.0
    settings = Settings()
    if load.partitions > 1:  # they share heads, where a row of each takes so many appends
        row_s = settings.paged_appends / load.requests_per_s
    else:
        row_s = settings.spill_entries / load.requests_per_s
    enough_s = min(settings.merge_rows_min * row_s, max(row_s, settings.merge_age_ms / 1000))
    return _MERGED_AGAIN / max(enough_s, 60 * FIXTURES[load.stage].plan_every_minutes)


def _calls_s(usage: Usage) -> float:
    """Return the seconds of a maintainer that makes these calls, several at once."""
    calls_s = usage.object_get_requests * GET_S + usage.object_put_requests * PUT_S + usage.table_requests * UPDATE_S
    return calls_s / MAINTAINER_CALLS_AT_ONCE


def _data(measured: Measured) -> Usage:
    """Return the units of reading one request's data, without the look that finds it."""
    reads = max(0.0, measured.per_fetch.table_read_units - measured.per_look.table_read_units)
    return Usage(table_read_units=reads, object_get_requests=measured.per_fetch.object_get_requests)


def _sum(*parts: tuple[Usage, float]) -> Usage:
    """Return the sum of usages, each so many times; functions and payloads are counted elsewhere."""
    names = ("table_read_units", "table_write_units", "object_put_requests", "object_get_requests")
    units = {name: sum(getattr(usage, name) * times for usage, times in parts) for name in names}
    return Usage(**units)


def _function(memory_mb: int, calls: float, seconds: float) -> Usage:
    return Usage(function_requests=round(calls), function_gb_seconds=calls * seconds * memory_mb / 1024)


def _log_gb(load: Workload, measured: Measured) -> float:
    """Return the GB of logs per month: each process that serves writes a line in so many seconds, if it is called."""
    interval_s = Settings().log_interval_ms / 1000
    busy_s = append_s(load, is_item=measured.is_item)
    calls_per_s = fetches(load)[0]
    processes = [(load.requests_per_s, load.requests_per_s * busy_s + 1 if load.requests_per_s else 0.0)]
    processes += [(calls_per_s, 1.0), (2 / HEARTBEAT_S, 1.0)] * load.consumers
    lines_per_s = sum(min(calls, count / interval_s) for calls, count in processes)
    lines_per_s += 4 / (60 * FIXTURES[load.stage].plan_every_minutes)
    return lines_per_s * MONTH_S * LOG_LINE_BYTES / GIB


def _egress(load: Workload, prices: PriceList) -> Mapping[str, float]:
    if load.clients is Clients.AWS:
        return {}
    read_gb = load.gb_month * load.consumers
    if load.clients is Clients.INTERNET:
        return {"egress": read_gb * prices.internet_gb}
    return {"NAT": MONTH_S / 3600 * prices.nat_hour + (load.gb_month + read_gb) * prices.nat_gb}


def deleted_copies(load: Workload, is_item: bool) -> int:
    """Return how many of the objects that contained a byte are deleted: its upload, and each segment up to the last.

    The first merge takes what came within `merge_age_ms`; each later one makes a segment four times as large, up to
    `segment_bytes_max` (docs/ARCHITECTURE.md, Maintenance).
    """
    settings = Settings()
    first = load.bytes_per_s / load.partitions * settings.merge_age_ms / 1000
    later = max(0, math.ceil(math.log(settings.segment_bytes_max / max(first, 1), 4)))
    return (0 if is_item else 1) + 1 + later


def peer_costs(load: Workload, prices: PeerPrices = PEERS_US_EAST_1) -> Mapping[str, float]:
    """Return the dollars per month of other services, for the same workload."""
    hours = MONTH_S / 3600
    written, read, kept = load.gb_month, load.gb_month * load.consumers, load.kept_gb
    after_first_day = load.bytes_per_s * max(0.0, load.retention_s - 86_400) / GIB
    brokers = max(3, math.ceil(_REPLICAS * load.bytes_per_s / prices.broker_bytes_per_s_max))
    clients_across = _CROSSING * (written + read) * prices.zone_gb
    return {
        "Kinesis on demand": prices.kinesis_stream_hour * hours
        + written * prices.kinesis_gb_in
        + read * prices.kinesis_gb_out
        + after_first_day * prices.kinesis_gb_month_after_first_day,
        "MSK Serverless": prices.msk_serverless_cluster_hour * hours
        + load.partitions * prices.msk_serverless_partition_hour * hours
        + written * prices.msk_serverless_gb_in
        + read * prices.msk_serverless_gb_out
        + kept * prices.msk_serverless_gb_month,
        "MSK provisioned": brokers * prices.msk_broker_hour * hours
        + _REPLICAS * kept * prices.msk_gb_month
        + clients_across,
        "Kafka in three zones": brokers * prices.kafka_broker_hour * hours
        + _REPLICAS * kept * prices.kafka_disk_gb_month
        + (_REPLICAS - 1) * written * prices.zone_gb
        + clients_across,
    }


def with_linger(load: Workload, linger_ms: float | None) -> Workload:
    """Return the same workload with another linger of its producers."""
    return replace(load, linger_ms=linger_ms)
