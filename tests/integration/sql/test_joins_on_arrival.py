"""Outer joins of streams: each record is joined once, when it arrives, whatever is repeated.

Slow are the restarts that find something else than the first test here does: two or three streaming queries each.
"""

from __future__ import annotations

import json
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from odradek.sql import on_spark
from odradek.sql.plan import Started
from odradek.sql.position import SqlError
from odradek.sql.running import eager
from odradek.sql.running.eager import KeptRecords
from odradek.sql.session import Session, check

from tests.integration.sql.test_on_spark import Screen, producer_of
from tests.support.spark.sink import ServedLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = """
    CREATE STREAM a (id INT KEY, v VARCHAR) WITH (KAFKA_TOPIC = '{0}a', KEY_FORMAT = 'JSON', VALUE_FORMAT = 'JSON');
    CREATE STREAM b (id INT KEY, w VARCHAR) WITH (KAFKA_TOPIC = '{0}b', KEY_FORMAT = 'JSON', VALUE_FORMAT = 'JSON');
    CREATE STREAM {0}r AS SELECT ROWKEY AS id, v, w FROM a FULL JOIN b WITHIN 10 SECONDS ON a.id = b.id;
"""


class Case:
    """Two topics and the join of them, in runs that each process what is there."""

    def __init__(self, spark: SparkSession, log: ServedLog, folder: Path, name: str) -> None:
        from odradek.sql.on_spark import SparkEngine
        from odradek.sql.topics import OpenTopics

        self.log, self.name, self.checkpoint = log, name, folder / f"CSAS_{name.upper()}R"
        for topic in ("a", "b"):
            log.create(f"{name}{topic}", 2)
        self._topics = OpenTopics(log.source, log.bootstrap_servers)
        self._engine = SparkEngine(
            spark, store={"store": log.source["store"]}, sink=log.sink, checkpoints=str(folder), stop=threading.Event(),
            trigger="100 milliseconds",
        )  # fmt: skip

    def run(self, before: str = "") -> None:
        steps = check([("script", before + SCRIPT.format(self.name))])
        Session(self._engine, self._topics, Screen(), once=True).run(steps)

    def run_on(self) -> Callable[[], None]:
        """Start the query, and return what stops it."""
        actions = [each.action for each in check([("script", SCRIPT.format(self.name))])]
        [plan] = [each.plan for each in actions if isinstance(each, Started)]
        self._engine.start(plan)
        return lambda: self._engine.stop(plan.query_id)

    def send(self, topic: str, *rows: tuple[int, str, int]) -> None:
        with producer_of(self.log) as producer:
            for key, text, at in rows:
                value = json.dumps({"v": text, "w": text}).encode()
                producer.send(f"{self.name}{topic}", value, key=str(key).encode(), timestamp_ms=at)

    def rows(self, key: int) -> list[tuple[str | None, str | None, int]]:
        """Return the rows that were written for a key, in order."""
        found = [each for part in self.log.records(f"{self.name.upper()}R").values() for each in part]
        mine = [each for each in found if each.key == str(key).encode()]
        return [(*json.loads(each.value or b"").values(), each.timestamp_ms) for each in mine]

    def wait_for(self, key: int, count: int) -> None:
        """Wait until so many rows are written for a key."""
        deadline = time.monotonic() + 120
        while len(self.rows(key)) < count:
            assert time.monotonic() < deadline, f"{self.rows(key)} instead of {count} rows"
            time.sleep(0.1)

    def repeat(self) -> int:
        """Let Spark believe that the last micro-batch has not ended. Returns its number."""
        last = max(int(each.name) for each in (self.checkpoint / "commits").iterdir() if each.name.isdigit())
        for each in (self.checkpoint / "commits").glob(f"*{last}*"):
            each.unlink()
        return last

    def close(self) -> None:
        self._engine.close()
        self._topics.close()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedLog]:
    with ServedLog(tmp_path_factory.mktemp("arrival") / "store") as served:
        yield served


@pytest.fixture
def case(spark: SparkSession, log: ServedLog, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Case]:
    made = Case(spark, log, tmp_path, f"t{len(request.node.name)}")
    yield made
    made.close()


def test_what_a_run_before_has_read_is_found_and_each_row_is_there_once(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.send("a", (1, "p", 1_000), (2, "q", 2_000))
    case.run()
    assert case.rows(1) == [("p", None, 1_000)]
    case.send("b", (1, "x", 4_000))
    case.run()  # reads what it keeps from the topics
    assert case.rows(1) == [("p", None, 1_000), ("p", "x", 4_000)]

    # The micro-batch is repeated as after a crash; meanwhile more has arrived, which it must not see.
    number = case.repeat()
    case.send("a", (1, "r", 5_000))
    case.run()
    assert case.rows(1) == [("p", None, 1_000), ("p", "x", 4_000), ("r", "x", 5_000)]
    assert (case.checkpoint / "commits" / str(number + 1)).exists()

    # It fails before it writes, and is repeated with what it had.
    case.send("b", (2, "y", 6_000))

    def failing(options: dict[str, str]) -> Callable[..., None]:
        def write(frame: Any, batch_id: int) -> None:
            raise RuntimeError("killed")

        return write

    with monkeypatch.context() as changed:
        changed.setattr(on_spark, "exactly_once", failing)
        with pytest.raises(SqlError):
            case.run()
    case.send("a", (2, "s", 7_000))
    case.run()
    assert case.rows(2) == [("q", None, 2_000), ("q", "y", 6_000), ("s", "y", 7_000)]


@pytest.mark.slow
def test_a_query_that_began_at_the_end_does_not_find_what_was_before(case: Case) -> None:
    """Slow: two streaming queries."""
    latest = "SET 'auto.offset.reset' = 'latest';"
    case.send("a", (1, "before", 1_000))
    case.run(latest)
    case.send("a", (1, "p", 2_000))
    case.run(latest)
    case.send("b", (1, "x", 3_000))
    case.run(latest)
    assert case.rows(1) == [("p", None, 2_000), ("p", "x", 3_000)]


@pytest.mark.slow
def test_a_restart_without_the_file_of_what_is_kept_joins_all_the_same(case: Case) -> None:
    """Slow: three streaming queries."""
    day = 24 * 3_600_000
    case.send("a", *((1, f"{number}", number * day) for number in range(1, 6)))
    case.run()
    case.send("b", (1, "x", 5 * day + 1))
    case.run()
    kept = max(int(each.name) for each in (case.checkpoint / "kept").iterdir() if each.name.isdigit())
    assert case.rows(1)[-1] == ("5", "x", 5 * day + 1)
    assert kept == 0  # where the query began
    shutil.rmtree(case.checkpoint / "kept")
    case.send("a", (1, "6", 5 * day + 2))
    case.run()
    assert case.rows(1)[-1] == ("6", "x", 5 * day + 2)


@pytest.mark.slow
def test_a_restart_reads_from_where_the_kept_records_begin(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow: three streaming queries."""
    day = 24 * 3_600_000
    case.send("a", (1, "1", day))
    case.run()
    stop = case.run_on()
    for number, at in ((2, 2 * day), (3, 3 * day), (4, 4 * day), (5, 4 * day + 1)):
        case.send("a", (1, f"{number}", at))
        case.wait_for(1, number)  # a micro-batch for each, in which records fall away
    stop()
    files = {int(each.name): each for each in (case.checkpoint / "kept").iterdir() if each.name.isdigit()}
    assert max(files) > 0
    starts = json.loads(files[max(files)].read_text())[0][f"{case.name}a"]
    [(place, first)] = [each for each in starts.items() if each[1]]
    assert first in (1, 2, 3)  # neither the whole topic nor less than is kept

    read: list[Any] = []
    within = on_spark.SparkEngine._within

    def noted(engine: Any, session: Any, plan: Any, given: Any, ranges: Any) -> Any:
        read.append({at.partition: spans for at, spans in ranges.items()})
        return within(engine, session, plan, given, ranges)

    monkeypatch.setattr(on_spark.SparkEngine, "_within", noted)
    case.send("b", (1, "x", 4 * day + 5_000))
    case.run()
    assert read[0] == {int(place): ((first, 5),)}
    assert case.rows(1)[-2:] == [("4", "x", 4 * day + 5_000), ("5", "x", 4 * day + 5_000)]


# --- the join, record by record


@dataclass(frozen=True)
class Record:
    """A record of one side."""

    side: int
    key: int
    ms: int
    offset: int

    @property
    def partition(self) -> int:
        return self.key % 2


@dataclass
class Model:
    """A join by Kafka Streams, one record after the other."""

    span_ms: int
    retention_ms: int
    grace_ms: int | None

    def __post_init__(self) -> None:
        self.there: list[Record] = []
        self.waiting: list[Record] = []
        self.stream_ms: dict[int, int] = {}
        self.newest: dict[tuple[int, int], int] = {}
        self.written: Counter[tuple[int | None, int | None]] = Counter()

    def arrive(self, records: list[Record]) -> None:
        so_far: dict[tuple[int, int], int] = {}
        order = []
        for each in sorted(records, key=lambda r: r.offset):
            place = (each.side, each.partition)
            so_far[place] = max(each.ms, so_far.get(place, each.ms))
            order.append((so_far[place], each.side, each.partition, each.offset, each))
        for *_, each in sorted(order, key=lambda row: row[:4]):
            oldest = self.newest.get((1 - each.side, each.partition), 0) - self.retention_ms
            found = [
                other for other in self.there
                if other.side != each.side and other.key == each.key
                and abs(other.ms - each.ms) <= self.span_ms and other.ms > oldest
            ]  # fmt: skip
            self.stream_ms[each.partition] = max(each.ms, self.stream_ms.get(each.partition, 0))
            self.write_alone()
            for other in found:
                pair = (each.offset, other.offset)
                self.written[pair if each.side == 0 else pair[::-1]] += 1
            self.waiting = [other for other in self.waiting if other not in found]
            if not found:
                self.waiting.append(each)
                self.write_alone()
            place = (each.side, each.partition)
            self.newest[place] = max(each.ms, self.newest.get(place, each.ms))
            self.there.append(each)

    def write_alone(self) -> None:
        """Write the rows without a match that are due."""
        wait_ms = None if self.grace_ms is None else self.span_ms + self.grace_ms
        due = [each for each in self.waiting if wait_ms is None or each.ms + wait_ms < self.stream_ms[each.partition]]
        self.waiting = [each for each in self.waiting if each not in due]
        self.written.update((each.offset, None) if each.side == 0 else (None, each.offset) for each in due)


@pytest.mark.slow
@pytest.mark.parametrize("grace_ms", [None, 15])
def test_what_is_written_is_that_of_a_join_record_by_record(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, grace_ms: int | None
) -> None:
    """Late records, records that are dropped, slabs that are merged, and states that are made again.

    Slow: many batches, each through Spark.
    """
    monkeypatch.setattr(eager, "_SLABS_APART", 2)
    monkeypatch.setattr(eager, "_SLABS_MAX", 4)
    grace = "" if grace_ms is None else f"GRACE PERIOD {grace_ms} MILLISECONDS"
    script = f"""
        CREATE STREAM a (id INT KEY, v INT) WITH (KAFKA_TOPIC = 'a', KEY_FORMAT = 'JSON', VALUE_FORMAT = 'JSON');
        CREATE STREAM b (id INT KEY, w INT) WITH (KAFKA_TOPIC = 'b', KEY_FORMAT = 'JSON', VALUE_FORMAT = 'JSON');
        CREATE STREAM r AS SELECT ROWKEY AS id, v, w FROM a FULL JOIN b WITHIN 20 MILLISECONDS {grace} ON a.id = b.id;
    """
    plan = next(each.action.plan for each in check([("s", script)]) if isinstance(each.action, Started))
    assert plan.eager is not None
    chance, given = random.Random(4), eager.Eager(20, 60) if grace_ms is None else plan.eager
    model, kept = Model(given.span_ms, given.retention_ms, grace_ms), KeptRecords(given)
    engine = on_spark.SparkEngine(spark, store={}, sink={}, checkpoints="", stop=threading.Event())
    offsets, written = [0, 0], Counter[tuple[int | None, int | None]]()
    dropped = 0
    try:
        for number in range(14):
            batch = []
            for _ in range(chance.choice([0, 3, 12, 12])):
                side, late = chance.randrange(2), chance.choice([0, 0, 0, 30, 90])
                batch.append(Record(side, chance.randrange(4), max(0, number * 25 + chance.randrange(25) - late),
                                    offsets[side]))  # fmt: skip
                offsets[side] += 1
            frames = [_frame(spark, [each for each in batch if each.side == side]) for side in (0, 1)]
            rows = engine._joined(spark, plan, frames, kept).collect()
            written.update((row["V"], row["W"]) for row in rows)
            model.arrive(batch)
            assert written == model.written, number
            dropped += kept.has_fewer
            kept.has_fewer = False
            if number % 5 == 4:  # as after a restart: from the topics, up to the micro-batch before
                sides = [_frame(spark, [each for each in model.there if each.side == side]) for side in (0, 1)]
                before = [engine._columns(spark, *each) for each in zip(plan.inputs, sides, strict=True)]
                kept.restore(before, number)
            else:
                kept.keep(number)
        assert dropped
        assert sum(1 for pair in written if None not in pair) > 20
        assert sum(1 for pair in written if None in pair) > 20
    finally:
        engine.close()


def _frame(spark: SparkSession, records: list[Record]) -> Any:
    rows = [
        (str(each.key).encode(), json.dumps({"v": each.offset, "w": each.offset}).encode(),
         datetime.fromtimestamp(each.ms / 1000, UTC), each.partition, each.offset, [])
        for each in records
    ]  # fmt: skip
    columns = "key binary, value binary, timestamp timestamp, partition int, offset long"
    return spark.createDataFrame(rows, f"{columns}, headers array<struct<key string, value binary>>")
