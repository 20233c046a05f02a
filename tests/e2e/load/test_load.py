"""64 producers and a group of 16 on a local service whose store is throttled, fails, times out and stalls.

Nothing is lost and nothing doubled; a store that refuses everything is called a bounded number of times a client;
memory does not grow. The figures are printed (`make load`). Times are the machine's as well: on two cores, which
clients, service and store share, 64 producers wait 1.5 s for an ack without any fault, and 16 wait 0.03 s with them.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import odradek
import pytest
from odradek.aio import Admin, Consumer
from odradek.settings import Settings

from tests.e2e.crash.log_ledger import Ledger
from tests.e2e.load.loaded import TOPIC, Load, LoadedService, Memory, partitions_of
from tests.e2e.load.worker import SETTINGS

SHARE = 0.05
PARTITIONS = 16
GROWTH_MB_MAX = 24.0  # between two thirds of a run of minutes
OUTAGE_S = 2.0
CALLS_A_CLIENT_S = 40  # five requests in flight a producer, each tried again after 0.05 to 1 s


async def load(
    data_dir: Path,
    *,
    seconds: float,
    producers: int,
    members: int,
    pause_s: float,
    seed: int = 1,
    partitions: int = PARTITIONS,
) -> Memory:
    """Run it, check it, print the figures; the memory that was watched."""
    async with LoadedService(data_dir, SHARE, seed) as service:
        memory = Memory(service)
        tps = partitions_of(partitions)
        async with Admin(**service.client_config) as admin:
            await admin.create_topics([odradek.NewTopic(TOPIC, num_partitions=partitions)])
        run = Load(service.client_config, Ledger(tps), random.Random(seed), pause_s)
        run.sending.set()
        run.reading.set()
        async with asyncio.TaskGroup() as tasks:
            reading = [tasks.create_task(run.consume(f"c{i}")) for i in range(members)]
            writing = [tasks.create_task(run.produce(f"p{i}")) for i in range(producers)]
            watching = tasks.create_task(memory.watch())
            began = time.perf_counter()
            await asyncio.sleep(seconds)
            elapsed_s = time.perf_counter() - began
            calls = await outage(service)
            run.sending.clear()
            await asyncio.gather(*writing)
            await service.set_share(0.0)
            assert run.failures == [], Counter(run.failures).most_common(5)
            await run.wait_for_delivery(60)
            watching.cancel()
            run.reading.clear()
            await asyncio.gather(*reading)
        counts = await service.set_share(0.0)
        async with Consumer(**service.client_config, auto_offset_reset="none") as reader:
            reader.assign(tps)
            record_count = await run.ledger.check(reader, whole=True)
            ends = await reader.end_offsets(tps)
        async with Consumer(**service.client_config, group_id="load") as reader:
            committed = await reader.committed(tps)
        assert service.errors == "", "the service had nothing to complain of"
    sent = sum(run.sent.values())
    assert record_count == sent == len(run.ledger.acknowledged), "each record is in the log once"
    for name in run.sent:
        run.ledger.check_order(name)
    assert set(run.delivered) == set(run.ledger.acknowledged), "the group saw each"
    assert {tp: offset and offset.offset for tp, offset in committed.items()} == ends
    report = audited(data_dir)
    assert report["findings"] == []
    faults = counts["faults"]
    assert set(faults) == {"throttled", "slow_down", "internal", "timed_out", "stalled"}
    latencies = statistics.quantiles(run.latencies_s, n=100)
    print(
        f"\n{producers} producers, {members} members, {seconds:.0f} s at {SHARE:.0%} faults: {sent} records, "
        f"{sent / (elapsed_s + 2 * OUTAGE_S):.0f}/s; ack p50 {latencies[49]:.2f} s, p99 {latencies[98]:.2f} s, "
        f"max {max(run.latencies_s):.2f} s\n"
        f"store calls {counts['calls'].total()}, faults {dict(sorted(faults.items()))}\n"
        f"calls/s: {calls['working']:.0f} working, {calls['refusing']:.0f} while every call is refused\n"
        f"delivered twice {sum(n - 1 for n in run.delivered.values())}, members were told {dict(run.refused)}\n"
        f"memory {memory.samples_mb[0]:.0f} -> {memory.samples_mb[-1]:.0f} MB, growth {memory.growth_mb():+.1f} MB\n"
        f"segments {report['checked'].get('segments', 0)}, pending {report['pending']}"
    )
    assert calls["refusing"] <= CALLS_A_CLIENT_S * (producers + members), "back-off"
    return memory


async def outage(service: LoadedService) -> dict[str, float]:
    """For a moment every call is refused: calls a second before it and during it."""
    before = await service.set_share(SHARE)
    await asyncio.sleep(OUTAGE_S)
    began = await service.set_share(1.0)
    await asyncio.sleep(OUTAGE_S)
    ended = await service.set_share(SHARE)
    return {
        "working": (began["calls"].total() - before["calls"].total()) / OUTAGE_S,
        "refusing": (ended["calls"].total() - began["calls"].total()) / OUTAGE_S,
    }


def audited(data_dir: Path) -> dict[str, dict[str, int]]:
    """Return the findings of `odradek audit` on the folder."""
    command = [sys.executable, "-m", "odradek.cli", "audit", "--data-dir", str(data_dir), "--output", "json"]
    settings = Settings(**{**SETTINGS, "sweep_interval_ms": 3_600_000})  # type: ignore[arg-type]
    environment = {**os.environ, **settings.to_env()}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stderr
    report: dict[str, dict[str, int]] = json.loads(run.stdout)
    return report


@pytest.mark.slow
async def test_nothing_is_lost_or_doubled_under_faults(tmp_path: Path) -> None:
    """Slow: who was refused backs off, and a group settles, in real seconds."""
    await load(tmp_path, seconds=2, producers=12, members=3, pause_s=0.1)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_minutes_of_load(tmp_path: Path) -> None:
    """The same with everybody, for ODRADEK_LOAD_S seconds: slow because memory shows only over minutes.

    ODRADEK_LOAD_PRODUCERS more of them send as many records a second together, ODRADEK_LOAD_PARTITIONS fewer partitions
    have as many producers each.
    """
    seconds = float(os.environ.get("ODRADEK_LOAD_S", "120"))
    producers = int(os.environ.get("ODRADEK_LOAD_PRODUCERS", "64"))
    partitions = int(os.environ.get("ODRADEK_LOAD_PARTITIONS", str(PARTITIONS)))
    pause_s = 0.2 * producers / 64
    memory = await load(
        tmp_path, seconds=seconds, producers=producers, members=16, pause_s=pause_s, partitions=partitions
    )
    if seconds >= 60:
        assert memory.growth_mb() < GROWTH_MB_MAX, memory.samples_mb
