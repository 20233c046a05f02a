"""Exactly once: drivers and Python workers are killed at seeded points; the result is that of an undisturbed run.

What the topic must hold is computed from the checkpoint and the input alone: the offset log says which records each
micro-batch had, so each update that should be there is known, and it must be there once, in the topic and in Parquet.
The closed windows in the other topic must be the batch answer. Rounds: ODRADEK_KILL_ROUNDS, seed: ODRADEK_KILL_SEED.

Slow: every round starts a driver with its JVM and kills it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.log import ProducePartition

from tests.support.spark.kills import Driver
from tests.support.spark.session import spark_environment
from tests.support.spark.sink import ServedLog

pytestmark = pytest.mark.slow

PARTITIONS = 2
KEYS = 7
PER_ROUND = 240
START_MS = 1_700_000_000_000
ROUND_S_MAX = 400.0
STUCK_MAX = 4  # rounds that one after the other add nothing: then kills prove nothing
KEPT = {"retention.ms": "-1"}  # the records are of years ago, and a long run meets the maintenance
FAR_MS = 10 * 24 * 3_600_000  # closes every window


class Input:
    """The topic `in`: written between rounds, remembered."""

    def __init__(self, log: ServedLog) -> None:
        self.log = log
        self.partitions: list[list[tuple[str, int, int]]] = [[] for _ in range(PARTITIONS)]  # key, amount, time
        log.create("in", PARTITIONS, **KEPT)

    def add(self, count: int, chance: random.Random) -> None:
        for partition, records in enumerate(self.partitions):
            builder = RecordBatchBuilder()
            for _ in range(count // PARTITIONS):
                key, amount = f"k{chance.randrange(KEYS)}", chance.randrange(1_000)
                time_ms = START_MS + len(records) * 500  # in order, so that nothing is late
                self._append(builder, partition, key, amount, time_ms)
            self._send(partition, builder)

    def close_windows(self) -> None:
        for partition, records in enumerate(self.partitions):
            builder = RecordBatchBuilder()
            self._append(builder, partition, "end", 0, records[-1][2] + FAR_MS)
            self._send(partition, builder)

    def _append(self, builder: RecordBatchBuilder, partition: int, key: str, amount: int, time_ms: int) -> None:
        value = json.dumps({"id": len(self.partitions[partition]), "amount": amount}).encode()
        builder.append(time_ms, key.encode(), value)
        self.partitions[partition].append((key, amount, time_ms))

    def _send(self, partition: int, builder: RecordBatchBuilder) -> None:
        request = ProducePartition("in", partition, builder.build())
        [result] = self.log.run(self.log.engine.produce([request]))
        assert not result.error, result


def start_driver(log: ServedLog, work: Path, environment: dict[str, str], until: str = "killed") -> Driver:
    """Start the job as a process of ours."""
    command = [sys.executable, "-m", "tests.e2e.pipeline.job", str(log.data_dir), log.bootstrap_servers, str(work)]
    return Driver([*command, until], environment, work / "driver.log")


def micro_batches(work: Path) -> int:
    """How many were begun and ended by either query: rises all the time while there is work."""
    folders = [work / f"checkpoint-{name}" / log for name in ("counts", "windows") for log in ("offsets", "commits")]
    return sum(1 for folder in folders if folder.is_dir() for path in folder.iterdir() if path.name.isdigit())


def expected_updates(work: Path, source: Input) -> Counter[tuple[str, int, int]]:
    """Each update (key, count, sum) that the query `counts` had to write, from its offset log."""
    offsets = work / "checkpoint-counts" / "offsets"
    updates: Counter[tuple[str, int, int]] = Counter()
    totals: dict[str, tuple[int, int]] = {}
    begun = [0] * PARTITIONS
    for number in sorted(int(path.name) for path in offsets.iterdir() if path.name.isdigit()):
        position = json.loads((offsets / str(number)).read_text().splitlines()[-1])["offsets"]["in"]
        touched = set()
        for partition, records in enumerate(source.partitions):
            end = position.get(str(partition), 0)
            for key, amount, _ in records[begun[partition] : end]:
                count, total = totals.get(key, (0, 0))
                totals[key] = (count + 1, total + amount)
                touched.add(key)
            begun[partition] = max(begun[partition], end)
        updates.update((key, *totals[key]) for key in touched)
    assert begun == [len(records) for records in source.partitions]
    return updates


def written_updates(log: ServedLog) -> Counter[tuple[str, int, int]]:
    updates: Counter[tuple[str, int, int]] = Counter()
    for records in log.records("out").values():
        for record in records:
            value = json.loads(record.value or b"{}")
            updates[(record.key or b"").decode(), value["n"], value["total"]] += 1
    return updates


def expected_windows(source: Input) -> Counter[tuple[int, str, int, int]]:
    totals: dict[tuple[int, str], tuple[int, int]] = {}
    for records in source.partitions:
        for key, amount, time_ms in records:
            if key != "end":
                count, total = totals.get((time_ms // 60_000, key), (0, 0))
                totals[time_ms // 60_000, key] = (count + 1, total + amount)
    return Counter((minute, key, *total) for (minute, key), total in totals.items())


def written_windows(log: ServedLog) -> Counter[tuple[int, str, int, int]]:
    windows: Counter[tuple[int, str, int, int]] = Counter()
    for records in log.records("closed").values():
        for record in records:
            value = json.loads(record.value or b"{}")
            windows[value["start"] // 60, (record.key or b"").decode(), value["n"], value["total"]] += 1
    return windows


def parquet_updates(work: Path) -> Counter[tuple[str, int, int]]:
    updates: Counter[tuple[str, int, int]] = Counter()
    for batch in (work / "updates").iterdir():
        for row in pq.read_table(batch).to_pylist():
            updates[row["key"].decode(), row["n"], row["total"]] += 1
    return updates


@pytest.fixture
def environment() -> dict[str, str]:
    made = spark_environment()
    made["PYSPARK_SUBMIT_ARGS"] = made["PYSPARK_SUBMIT_ARGS"].replace("local[2]", "local[2,4]")  # tasks are retried
    return made


def run_rounds(rounds: int, seed: int, tmp_path: Path, environment: dict[str, str]) -> Counter[str]:
    chance = random.Random(seed)
    work = tmp_path / "work"
    work.mkdir()
    kills: Counter[str] = Counter()
    with ServedLog(tmp_path / "store") as log:
        log.create("out", 3, **KEPT)
        log.create("closed", 2, **KEPT)
        source = Input(log)
        driver: Driver | None = None
        stuck = 0
        try:
            for number in range(rounds):
                source.add(PER_ROUND, chance)
                if driver is None or not driver.is_alive:
                    driver = start_driver(log, work, environment)
                before = micro_batches(work)
                _wait_for_progress(driver, work, chance.randrange(1, 8))
                stuck = 0 if micro_batches(work) > before else stuck + 1
                assert stuck < STUCK_MAX, (work / "driver.log").read_text()[-3_000:]
                time.sleep(chance.random() * 0.7)
                workers = _workers(driver) if number % 2 else []
                if workers:
                    os.kill(chance.choice(workers), signal.SIGKILL)
                    kills["worker"] += 1
                else:
                    driver.kill()
                    kills["driver"] += 1
                print(f"round {number}: {dict(kills)}, {micro_batches(work)} entries", flush=True)
            if driver is not None:
                driver.kill()
            source.close_windows()
            for _ in range(3):  # a slow machine may fail a query by itself; that is one more crash
                driver = start_driver(log, work, environment, until="done")
                if driver.process.wait(ROUND_S_MAX) == 0:
                    break
            assert driver.process.returncode == 0, (work / "driver.log").read_text()[-3_000:]
        finally:
            if driver is not None:
                driver.kill()
        assert written_updates(log) == expected_updates(work, source)
        assert parquet_updates(work) == expected_updates(work, source)
        assert written_windows(log) == expected_windows(source)
    return kills


def _workers(driver: Driver) -> list[int]:
    """The workers of a driver: between two tasks, and after those of the last kill, it may have none for a while."""
    deadline = time.monotonic() + ROUND_S_MAX
    while driver.is_alive and time.monotonic() < deadline:
        if workers := driver.workers():
            return workers
        time.sleep(0.02)
    return []


def _wait_for_progress(driver: Driver, work: Path, entries: int) -> None:
    goal = micro_batches(work) + entries
    deadline = time.monotonic() + ROUND_S_MAX
    while driver.is_alive and micro_batches(work) < goal and time.monotonic() < deadline:
        time.sleep(0.02)


def test_killed_drivers_and_workers_leave_every_update_once(tmp_path: Path, environment: dict[str, str]) -> None:
    rounds, seed = int(os.environ.get("ODRADEK_KILL_ROUNDS", "3")), int(os.environ.get("ODRADEK_KILL_SEED", "1"))
    kills = run_rounds(rounds, seed, tmp_path, environment)
    assert kills["driver"]
    assert kills["worker"]
