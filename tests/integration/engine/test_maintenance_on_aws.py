"""Retention, sweep, deletion and audit over the aws adapters: DynamoDB and S3 take every condition as memory does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from odradek.cli import run
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.model.log import DeleteRecordsPartition
from odradek.settings import Settings
from odradek.system import SystemRng
from odradek.testing.manual_clock import ManualClock

from tests.support.engine import batch, produce, read_all
from tests.support.stores.aws import CREDENTIALS, REGION, create_tables, moto_server, open_store
from tests.support.stores.segments import merge_by_hand, partition_of
from tests.support.stores.wal_shards import few_wal_shards

SMALL = Settings(head_bytes_max=400, spill_entries=2, producers_in_head_max=1, sweep_recheck_hours=0, item_bytes_max=90)


@pytest.fixture
def endpoint() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, few_wal_shards(), moto_server() as url:
        for name, value in {**CREDENTIALS, "ODRADEK_SWEEP_RECHECK_HOURS": "0"}.items():
            patch.setenv(name, value)
        create_tables(url)
        yield url


async def age(endpoint: str) -> None:
    """A log that is written, merged, cut and left alone for hours; then maintained twice."""
    clock = ManualClock(auto_advance=True)
    async with open_store(endpoint) as store:
        engine = Engine(tables=store, objects=store.objects, clock=clock, rng=SystemRng(), settings=SMALL)
        await engine.topics.create("gone")
        await produce(engine, "gone", 0, batch([b"x"]))
        await engine.topics.delete("gone")
        await engine.topics.create("t", 1, {"retention.ms": str(10 * 3_600_000)})
        for n in range(20):
            clock.advance(0.01)
            records = batch([b"x" * (n % 3) * 40], producer=(n % 3, 0, n // 3), timestamp_ms=clock.now_ms())
            assert not (await produce(engine, "t", 0, records)).error
        await merge_by_hand(engine, await partition_of(engine, "t"), rows_per_segment=2)
        await engine.topics.create_partitions("t", 2)
        clock.advance(2 * 3600)
        report = await engine.maintenance.run()
        assert report.failures == []
        assert report.done["uploads_swept"] > 3
        assert report.done["topics_removed"] == 1
        await engine.topics.create_partitions("t", 3)  # under a floor that has risen
        await engine.topics.create("new")
        assert len(await read_all(engine, "t", 0)) == 20
        [cut] = await engine.delete_records([DeleteRecordsPartition("t", 0, 5)])
        assert (cut.error, cut.low_watermark) == (ErrorCode.NONE, 5)
        clock.advance(11 * 3600)
        assert not (await produce(engine, "t", 0, batch([b"young"], timestamp_ms=clock.now_ms()))).error
        # Somebody died, so that orphans are looked for.
        assert await engine.leases.take(await partition_of(engine, "t"))
        clock.advance(20 * 3600)
        # Without a second sweep: each hour is 64 queries, and the emulator is slow.
        rested = replace(SMALL, sweep_interval_ms=10**15)
        engine = Engine(tables=store, objects=store.objects, clock=clock, rng=SystemRng(), settings=rested)
        report = await engine.maintenance.run()
        assert report.failures == []
        assert report.done["rows_removed"] > 0
        assert report.done["log_starts_raised"] == 1
        assert report.done["producers_expired"] > 0
        head = await engine.index.read_head(await partition_of(engine, "t"))
        assert head is not None
        assert report.done["tails_rolled"] > 0
        assert head.log_start_offset == head.next_offset, "a tail that nobody writes to expires as well"


def test_a_store_on_aws_is_maintained_and_audited(endpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(age(endpoint))
    flags = ["--bucket", "odradek-objects", "--region", REGION, "--endpoint-url", endpoint]
    flags += [part for name in ("log", "groups", "catalog") for part in (f"--{name}-table", f"odradek-{name}")]
    code = run(["audit", *flags, "--output", "json"])
    report = json.loads(capsys.readouterr().out)
    assert (code, report["findings"]) == (0, [])
    assert report["checked"]["partitions"] == 4
    wrong = run(["audit", *flags, "--bucket", "no-such-bucket"])
    assert wrong == 2
    said = capsys.readouterr().err
    assert said.startswith("odradek: cannot audit: ")
    assert said.count("\n") == 1
