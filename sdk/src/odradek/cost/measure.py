"""The number of requests of an append and a fetch, counted by running the engine on an embedded store.

The store is a temporary directory and counts what DynamoDB and S3 would bill. Requests of more than SAMPLE_BYTES_MAX
are counted at that size: above the limit between items and objects their number does not depend on the size.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from odradek.adapters.embedded import open_embedded
from odradek.cost.metering import Snapshot, UsageMeter, total
from odradek.cost.model import Measured, Workload
from odradek.engine.engine import Engine
from odradek.engine.maintenance.maintenance import MaintenanceReport
from odradek.errors import KafkaError
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.log import FetchPartition, ProducePartition
from odradek.ports.meter import Usage
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng

APPENDS = 64
SAMPLE_BYTES_MAX = 64 * 1024


async def measure(load: Workload) -> Measured:
    """Append, fetch and merge like that workload. Raises KafkaError if the embedded store cannot be created."""
    request_bytes = min(load.request_bytes, SAMPLE_BYTES_MAX)
    builder = RecordBatchBuilder()
    size = max(1, min(load.record_bytes, request_bytes))
    for _ in range(max(1, request_bytes // size)):
        builder.append(0, None, bytes(size))
    records = builder.build()
    meter = UsageMeter()
    with tempfile.TemporaryDirectory() as folder:
        store = open_embedded(Path(folder), meter=meter, synchronous="NORMAL")
        try:
            settings = Settings(merge_delay_ms=0)
            engine = Engine(
                tables=store, objects=store.objects, clock=SystemClock(), rng=SystemRng(), settings=settings
            )
            topic = await engine.topics.create("measured", 1)
            await engine.fetch([FetchPartition("measured", 0, 0)])  # reads that happen once per process do not count
            idle_from = meter.snapshot()
            await engine.fetch([FetchPartition("measured", 0, 0)])
            idle = total(meter.since(idle_from))
            appended, fetched = Usage(), Usage()
            offset = 0
            for _ in range(APPENDS):
                before = meter.snapshot()
                [result] = await engine.produce([ProducePartition("measured", 0, records)])
                if result.error:
                    raise KafkaError(result.error, result.message or "the engine refused a measured append")
                appended += total(meter.since(before))
                before = meter.snapshot()
                [found] = await engine.fetch([FetchPartition("measured", 0, offset)])
                fetched += total(meter.since(before))
                offset = found.high_watermark
            merged_from = meter.snapshot()
            await engine.maintenance.run_partition(topic, 0, MaintenanceReport())
            appended += total(meter.since(merged_from))
            is_item = not _has_wal_object(idle_from, meter.snapshot())
        finally:
            await store.aclose()
    return Measured(_each(appended), _each(fetched), idle, is_item)


def _has_wal_object(before: Snapshot, after: Snapshot) -> bool:
    """Return True if more objects were put than a merge writes."""
    puts = after.get("PutObject", Usage()) - before.get("PutObject", Usage())
    return puts.object_put_requests >= APPENDS


def _each(usage: Usage) -> Usage:
    """Return the mean usage of an append."""
    units = {name: getattr(usage, name) / APPENDS for name in Usage.__dataclass_fields__}
    return Usage(**units)
