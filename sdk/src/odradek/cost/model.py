"""The monthly cost of a workload, here and elsewhere. Pure; the requests of an append and a fetch are measured
(cost/measure.py), the rest is the arithmetic below.

    requests     a producer sends when `linger_ms` is over or a batch is full, with so many in flight at most
    append       what the engine asked of the store for one request of that size, merges and spills included
    fetch        each consumer reads everything once, at the end of the log: it asks again as soon as it is answered,
                 and waits `fetch_max_wait_ms` where there is nothing. So each keeps one function busy all the time
    function     memory (infra/stages.py) times the time that the store takes (published latencies, FUNCTION_MS)
    storage      rate times retention, in the object store; nothing is replicated by us
    deleted      where deleted objects are kept for a restore: uploads once they are merged, segments once they are
                 merged into larger ones or past the retention, each for so long; a byte is in one of each
    queue        long polls of the maintenance queue, whatever is written: 5 of 20 s each (Lambda's documentation), and
                 three requests for ten tasks: each partition has one with every plan
    left out     free tiers, support, logs, compression (ours and theirs alike), people

Others: replicas times retention on disks, two thirds of the traffic across zones, as many brokers as the rate needs, at
least three.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from odradek.cost.prices import GIB, PEERS_US_EAST_1, US_EAST_1, PeerPrices, PriceList
from odradek.ports.meter import Usage
from odradek.settings import Settings

MONTH_S = 730 * 3600
IN_FLIGHT = 5  # requests of one producer
BATCH_BYTES = 1_000_000  # the SDK's batch_size
FETCH_WAIT_S = 0.5
MEMORY_MB = {"produce": 1024, "fetch": 1024}
APPEND_MS = {"item": 14, "object": 90}  # medians: item 2 x 7.6 ms; PUT 60-100 ms and 7.6 ms
FETCH_MS = 60  # one ranged GET and a head
QUEUE_POLLS_PER_S = 5 / 20
QUEUE_REQUESTS_PER_TASK = 3 / 10  # send, receive and delete, ten tasks per request
PLAN_EVERY_S = 300  # infra/stages.py
_CROSSING = 2 / 3  # of the traffic, with clients and brokers spread over three zones
_REPLICAS = 3


@dataclass(frozen=True, slots=True)
class Workload:
    """The load on a log."""

    bytes_per_s: float
    record_bytes: int = 1024
    producers: int = 1
    consumers: int = 1  # each reads everything once
    retention_s: float = 7 * 86_400
    linger_ms: float = 5
    partitions: int = 16  # for those who bill by partition; and what a merge finds
    keep_deleted_s: float = 0  # how long deleted objects are kept (infra/stages.py, keep_deleted_days)

    @property
    def requests_per_s(self) -> float:
        """The produce requests per second of all producers."""
        rate = self.bytes_per_s / self.producers
        if rate <= 0:
            return 0.0
        by_size = rate / BATCH_BYTES
        latency_s = APPEND_MS["object"] / 1000
        by_time = min(1000 / max(self.linger_ms, 1), IN_FLIGHT / latency_s, rate / self.record_bytes)
        return self.producers * max(by_size, by_time)

    @property
    def request_bytes(self) -> int:
        """The bytes of one produce request."""
        requests = self.requests_per_s
        return max(self.record_bytes, math.ceil(self.bytes_per_s / requests)) if requests else self.record_bytes

    @property
    def gb_month(self) -> float:
        return self.bytes_per_s * MONTH_S / GIB

    @property
    def kept_gb(self) -> float:
        return self.bytes_per_s * self.retention_s / GIB


@dataclass(frozen=True, slots=True)
class Measured:
    """The engine's measured store requests."""

    per_append: Usage
    per_fetch: Usage  # of one append's data, at the end of the log
    per_idle_fetch: Usage
    is_item: bool  # stored as an item, not as an object


def own_cost(load: Workload, measured: Measured, prices: PriceList = US_EAST_1) -> Mapping[str, float]:
    """Return dollars per month, by component."""
    appends = load.requests_per_s * MONTH_S
    fetches_per_s = min(max(load.requests_per_s, 1 / FETCH_WAIT_S), 1000 / FETCH_MS)
    fetches = fetches_per_s * MONTH_S * load.consumers
    read = measured.per_fetch
    # The head is read by every fetch; each append's data is read once by every consumer.
    gets = read.object_get_requests * appends * load.consumers
    reads = measured.per_append.table_read_units * appends + measured.per_idle_fetch.table_read_units * fetches
    reads += max(0.0, read.table_read_units - measured.per_idle_fetch.table_read_units) * appends * load.consumers
    append_s = APPEND_MS["item" if measured.is_item else "object"] / 1000
    busy = {"produce": appends * append_s, "fetch": load.consumers * MONTH_S}
    gb_seconds = sum(seconds * MEMORY_MB[name] / 1024 for name, seconds in busy.items())
    written = measured.per_append
    tasks_per_s = min(load.partitions, load.requests_per_s * PLAN_EVERY_S) / PLAN_EVERY_S
    queue_requests = (QUEUE_POLLS_PER_S + tasks_per_s * QUEUE_REQUESTS_PER_TASK) * MONTH_S
    puts = written.object_put_requests * appends
    gets += written.object_get_requests * appends
    deleted = load.bytes_per_s * load.keep_deleted_s * deleted_copies(load, measured.is_item) / GIB
    return {
        "object puts": puts * prices.per_thousand_object_put_requests / 1e3,
        "object gets": gets * prices.per_thousand_object_get_requests / 1e3,
        "table writes": written.table_write_units * appends * prices.per_million_table_write_units / 1e6,
        "table reads": reads * prices.per_million_table_read_units / 1e6,
        "function requests": (appends + fetches) * prices.per_million_function_requests / 1e6,
        "function time": gb_seconds * prices.per_function_gb_second,
        "queue requests": queue_requests * prices.per_million_queue_requests / 1e6,
        "storage": load.kept_gb * prices.object_gb_month,
        **({"deleted objects": deleted * prices.object_gb_month} if load.keep_deleted_s else {}),
    }


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


def with_linger(load: Workload, linger_ms: float) -> Workload:
    """Return the same workload with another linger of its producers."""
    return replace(load, linger_ms=linger_ms)
