"""Tables that retract, joins by foreign keys, a join of streams on arrival: drivers and workers are killed.

What each table must be is computed from its inputs alone, as one batch. Inputs change between the kills: rows come, go,
and move from one group to another. A group keeps its row when it has no rows. Of two streams each pair is there once,
and a record that never found one is there once without. Rounds: ODRADEK_KILL_ROUNDS, seed: ODRADEK_KILL_SEED.

Slow: every other round starts a driver with its JVM and kills it.
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
from typing import Any

import pytest
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.log import ProducePartition

from tests.support.spark.flights import latest_values
from tests.support.spark.kills import Driver
from tests.support.spark.session import spark_environment
from tests.support.spark.sink import ServedLog

pytestmark = pytest.mark.slow

PEOPLE, PLACES, CHANGES = 40, 6, 25
START_MS = 1_700_000_000_000
ROUND_S_MAX = 400.0
QUIET_S = 10.0
TABLES = ("BY_PLACE", "NAMED", "BY_NAME", "VISITS")
SCRIPT = """
CREATE TABLE people (id VARCHAR PRIMARY KEY, place VARCHAR, age INT)
  WITH (KAFKA_TOPIC = 'people', VALUE_FORMAT = 'JSON');
CREATE TABLE places (place VARCHAR PRIMARY KEY, name VARCHAR) WITH (KAFKA_TOPIC = 'places', VALUE_FORMAT = 'JSON');
CREATE STREAM seen (place VARCHAR KEY, who VARCHAR) WITH (KAFKA_TOPIC = 'seen', VALUE_FORMAT = 'JSON');
CREATE TABLE by_place AS
  SELECT place, COUNT(*) AS n, SUM(age) AS total, MAX(age) AS oldest, MIN(age) AS youngest
  FROM people GROUP BY place HAVING COUNT(*) > 2;
CREATE TABLE named AS
  SELECT p.id AS id, p.age AS age, q.name AS name FROM people p LEFT JOIN places q ON p.place = q.place;
CREATE TABLE by_name AS SELECT name, COUNT(*) AS n, SUM(age) AS total FROM named GROUP BY name;
CREATE STREAM heard (place VARCHAR KEY, who VARCHAR) WITH (KAFKA_TOPIC = 'heard', VALUE_FORMAT = 'JSON');
CREATE STREAM met AS SELECT s.place AS place, s.who AS seen, h.who AS heard
  FROM seen s LEFT JOIN heard h WITHIN 30 MILLISECONDS ON s.place = h.place;
CREATE TABLE visits AS SELECT place, COUNT(*) AS n FROM seen GROUP BY place;
"""


Row = tuple[int, bytes, bytes | None]


class Inputs:
    """The topics that the script reads, and what is in them."""

    def __init__(self, log: ServedLog) -> None:
        self.log = log
        self.people: dict[str, dict[str, Any]] = {}
        self.places: dict[str, dict[str, Any]] = {}
        self.seen: Counter[str] = Counter()
        self.met: dict[str, list[tuple[int, str, str]]] = {"seen": [], "heard": []}  # time, place, who
        self._time_ms = START_MS
        for name, policy in (("people", "compact"), ("places", "compact"), ("seen", "delete"), ("heard", "delete")):
            log.create(name, 2, **{"cleanup.policy": policy, "retention.ms": "-1"})

    def change(self, chance: random.Random) -> None:
        """Add, move and remove some rows of each."""
        people = self._empty()
        for number in chance.sample(range(PEOPLE), CHANGES):
            value = {"place": f"p{chance.randrange(PLACES)}", "age": chance.randrange(90)}
            _put(self.people, f"id{number}", None if chance.random() < 0.3 else value)
            self._append(people[number % 2], f"id{number}", self.people.get(f"id{number}"))
        self._send("people", people)
        places = self._empty()
        for number in chance.sample(range(PLACES), 2):
            value = {"name": f"name {chance.randrange(4)}"}
            _put(self.places, f"p{number}", None if chance.random() < 0.3 else value)
            self._append(places[number % 2], f"p{number}", self.places.get(f"p{number}"))
        self._send("places", places)
        for topic in ("seen", "heard"):
            rows = self._empty()
            for _ in range(CHANGES):
                name_of_place = f"p{chance.randrange(PLACES)}"
                self.seen[name_of_place] += topic == "seen"
                person = f"{topic} {len(self.met[topic])}"
                self._append(rows[int(name_of_place[1:]) % 2], name_of_place, {"who": person})
                self.met[topic].append((self._time_ms, name_of_place, person))
            self._send(topic, rows)

    def _empty(self) -> tuple[list[Row], list[Row]]:
        return [], []  # of each partition

    def _append(self, rows: list[Row], key: str, value: dict[str, Any] | None) -> None:
        self._time_ms += 1
        rows.append((self._time_ms, key.encode(), None if value is None else json.dumps(value).encode()))

    def _send(self, topic: str, partitions: tuple[list[Row], ...]) -> None:
        for partition, rows in enumerate(partitions):
            builder = RecordBatchBuilder()
            for row in rows:
                builder.append(*row)
            if rows:
                [result] = self.log.run(self.log.engine.produce([ProducePartition(topic, partition, builder.build())]))
                assert not result.error, result

    def pairs(self) -> Counter[tuple[str, str]]:
        """Return the pairs that the join must have."""
        return Counter(
            (one, other)
            for ms, met_at, one in self.met["seen"]
            for at, heard_at, other in self.met["heard"]
            if met_at == heard_at and abs(ms - at) <= 30
        )

    def tables(self) -> dict[str, dict[str, dict[str, Any]]]:
        """The answer of a batch."""
        by_place: dict[str, list[int]] = {}
        by_name: dict[str, list[int]] = {}
        named = {}
        for key, person in self.people.items():
            name = self.places.get(person["place"], {}).get("name")
            named[key] = {"AGE": person["age"], "NAME": name}
            by_place.setdefault(person["place"], []).append(person["age"])
            if name is not None:
                by_name.setdefault(name, []).append(person["age"])
        return {
            "BY_PLACE": {
                place_name: {"N": len(ages), "TOTAL": sum(ages), "OLDEST": max(ages), "YOUNGEST": min(ages)}
                for place_name, ages in by_place.items()
                if len(ages) > 2
            },
            "NAMED": named,
            "BY_NAME": {name: {"N": len(ages), "TOTAL": sum(ages)} for name, ages in by_name.items()},
            "VISITS": {place_name: {"N": count} for place_name, count in self.seen.items()},
        }


def _put(rows: dict[str, dict[str, Any]], key: str, value: dict[str, Any] | None) -> None:
    rows.pop(key, None)
    if value is not None:
        rows[key] = value


def start(log: ServedLog, work: Path, environment: dict[str, str], *more: str) -> Driver:
    (work / "script.sql").write_text(SCRIPT)
    command = [sys.executable, "-m", "odradek.glue_jobs.sql_job.job", "--script", str(work / "script.sql")]
    command += ["--checkpoint-location", str(work / "checkpoints"), "--store", f"embedded:{log.data_dir}"]
    command += ["--bootstrap-servers", log.bootstrap_servers, "--trigger", "100 milliseconds", "--metrics", "none"]
    return Driver([*command, *more], environment, work / "driver.log")


def micro_batches(work: Path) -> int:
    """How many were begun and ended by all queries."""
    entries = [*work.glob("checkpoints/*/offsets/*"), *work.glob("checkpoints/*/commits/*")]
    return sum(1 for entry in entries if entry.name.isdigit())


def wait_for_progress(driver: Driver, work: Path, goal: int) -> None:
    """Wait for so many entries, or until everything is done: then there is one, and no more for a while."""
    batches_seen = micro_batches(work)
    deadline = time.monotonic() + ROUND_S_MAX
    while driver.is_alive and batches_seen < goal and time.monotonic() < deadline:
        time.sleep(0.02)
        if (now := micro_batches(work)) > batches_seen:
            batches_seen = now
            deadline = time.monotonic() + QUIET_S


def test_tables_that_retract_are_right_whatever_was_killed(tmp_path: Path) -> None:
    rounds, seed = int(os.environ.get("ODRADEK_KILL_ROUNDS", "3")), int(os.environ.get("ODRADEK_KILL_SEED", "1"))
    chance, kills = random.Random(seed), Counter[str]()
    environment = spark_environment()
    environment["PYSPARK_SUBMIT_ARGS"] = environment["PYSPARK_SUBMIT_ARGS"].replace("local[2]", "local[2,4]")
    with ServedLog(tmp_path / "store") as log:
        inputs = Inputs(log)
        driver: Driver | None = None
        try:
            for number in range(rounds):
                inputs.change(chance)
                if driver is None or not driver.is_alive:
                    driver = start(log, tmp_path, environment)
                before = micro_batches(tmp_path)
                wait_for_progress(driver, tmp_path, before + chance.randrange(1, 8))
                assert micro_batches(tmp_path) > before or not driver.is_alive, _said(tmp_path)
                time.sleep(chance.random() * 0.7)
                workers = driver.workers()
                if number % 2 and workers and driver.is_alive:
                    os.kill(chance.choice(workers), signal.SIGKILL)
                    kills["worker"] += 1
                else:
                    driver.kill()
                    kills["driver"] += 1
                print(f"round {number}: {dict(kills)}, {micro_batches(tmp_path)} entries", flush=True)
            if driver is not None:
                driver.kill()
            for _ in range(3):  # a slow machine may fail a query by itself; that is one more crash
                driver = start(log, tmp_path, environment, "--once")
                if driver.process.wait(ROUND_S_MAX) == 0:
                    break
            assert driver.process.returncode == 0, _said(tmp_path)
        finally:
            if driver is not None:
                driver.kill()
        wanted = inputs.tables()
        tables_read = {name: latest_values(log, name) for name in TABLES}
        # Names that nobody has any more: which of them were written depends on where micro-batches ended.
        empty = {name for name, row in tables_read["BY_NAME"].items() if row["N"] == 0}
        assert all(tables_read["BY_NAME"][name] == {"N": 0, "TOTAL": 0} for name in empty)
        assert not empty & wanted["BY_NAME"].keys()
        tables_read["BY_NAME"] = {name: row for name, row in tables_read["BY_NAME"].items() if name not in empty}
        assert tables_read == wanted
        rows = [json.loads(record.value or b"") for part in log.records("MET").values() for record in part]
        met = Counter((row["SEEN"], row["HEARD"]) for row in rows if row["HEARD"] is not None)
        alone = Counter(row["SEEN"] for row in rows if row["HEARD"] is None)
        assert met == inputs.pairs()
        assert set(alone.values()) == {1}
        assert {person for _, _, person in inputs.met["seen"]} == {one for one, _ in met} | set(alone)
    assert kills["driver"]
    assert kills["worker"]


def _said(work: Path) -> str:
    return (work / "driver.log").read_text()[-3_000:]
