"""Tables of tables, through the service: a change of an input changes the result, and only what differs is written."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from odradek.sql.session import Session, check

from tests.integration.sql.test_on_spark import Screen, producer_of
from tests.support.spark.sink import ServedLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = """
    CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR, city VARCHAR)
        WITH (KAFKA_TOPIC = 'customers', FORMAT = 'JSON');
    CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount INT) WITH (KAFKA_TOPIC = 'orders', FORMAT = 'JSON');
    CREATE STREAM clicks (who VARCHAR KEY, page VARCHAR) WITH (KAFKA_TOPIC = 'clicks', VALUE_FORMAT = 'JSON');
"""
SCRIPT = """
    CREATE TABLE by_city AS SELECT city, COUNT(*) AS n, COLLECT_LIST(name) AS names, MAX(id) AS last
        FROM customers GROUP BY city HAVING COUNT(*) > 1;
    CREATE TABLE bought AS SELECT o.id AS id, c.name AS name, o.amount AS amount
        FROM orders o LEFT JOIN customers c ON o.customer = c.id;
    CREATE TABLE visits AS SELECT who, COUNT(*) AS n FROM clicks WINDOW SESSION (10 SECONDS, GRACE PERIOD 1 HOUR)
        GROUP BY who EMIT CHANGES;
"""


COUNTED = """
    CREATE TABLE staff (id INT PRIMARY KEY, city VARCHAR, age INT) WITH (KAFKA_TOPIC = 'staff', FORMAT = 'JSON');
    CREATE TABLE counted AS SELECT city, COUNT(*) AS n, SUM(age) AS age FROM staff GROUP BY city;
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedLog]:
    with ServedLog(tmp_path_factory.mktemp("maintained") / "store") as served:
        for topic, partitions in (("customers", 1), ("orders", 2), ("staff", 1)):
            served.create(topic, partitions, **{"cleanup.policy": "compact"})
        served.create("clicks", 1)
        yield served


@pytest.fixture
def run(spark: SparkSession, log: ServedLog, tmp_path: Path) -> Iterator[Callable[..., Screen]]:
    from odradek.sql.on_spark import SparkEngine
    from odradek.sql.topics import OpenTopics

    topics = OpenTopics(log.source, log.bootstrap_servers)
    engine = SparkEngine(
        spark, store={"store": log.source["store"]}, sink=log.sink, checkpoints=str(tmp_path), stop=threading.Event()
    )

    def once(script: str = SOURCES + SCRIPT) -> Screen:
        screen = Screen()
        Session(engine, topics, screen, once=True).run(check([("script", script)]))
        return screen

    yield once
    engine.close()
    topics.close()


def send(log: ServedLog, topic: str, *rows: tuple[Any, Any], times: Sequence[int] = ()) -> None:
    with producer_of(log) as producer:
        for number, (key, value) in enumerate(rows):
            data = None if value is None else json.dumps(value).encode()
            text = key if isinstance(key, str) else json.dumps(key)
            more = {"timestamp_ms": times[number]} if times else {}
            producer.send(topic, data, key=text.encode(), **more)


def records(log: ServedLog, topic: str) -> list[tuple[bytes | None, Any]]:
    """Return the records of a topic, by key and in the order of its partitions."""
    found = [each for part in log.records(topic).values() for each in part]
    return [(each.key, None if each.value is None else json.loads(each.value)) for each in found]


def table(log: ServedLog, topic: str) -> dict[bytes | None, Any]:
    return {key: value for key, value in dict(records(log, topic)).items() if value is not None}


def session(key: str, start: int, end: int) -> bytes:
    return key.encode() + end.to_bytes(8, "big") + start.to_bytes(8, "big")


def test_what_changes_is_retracted(run: Callable[[], Screen], log: ServedLog) -> None:
    send(log, "customers", (1, {"NAME": "Ann", "CITY": "Oslo"}), (2, {"NAME": "Bo", "CITY": "Oslo"}))
    send(log, "orders", (10, {"CUSTOMER": 1, "AMOUNT": 5}), (11, {"CUSTOMER": 3, "AMOUNT": 7}))
    send(log, "clicks", ("a", {"PAGE": "x"}), ("a", {"PAGE": "y"}), times=[1_000, 30_000])
    run()
    assert table(log, "BY_CITY") == {b'"Oslo"': {"N": 2, "NAMES": ["Ann", "Bo"], "LAST": 2}}
    assert table(log, "BOUGHT") == {b"10": {"NAME": "Ann", "AMOUNT": 5}, b"11": {"NAME": None, "AMOUNT": 7}}
    assert table(log, "VISITS") == {session("a", 1_000, 1_000): {"N": 1}, session("a", 30_000, 30_000): {"N": 1}}
    before = len(records(log, "BOUGHT"))

    # A row moves to another group, one of the other table appears, an order is deleted, two sessions become one.
    send(log, "customers", (2, {"NAME": "Bo", "CITY": "Rome"}), (3, {"NAME": "Cy", "CITY": "Rome"}))
    send(log, "orders", (10, None))
    send(log, "clicks", ("a", {"PAGE": "z"}), ("a", {"PAGE": "z"}), times=[11_000, 20_500])
    run()
    assert table(log, "BY_CITY") == {b'"Rome"': {"N": 2, "NAMES": ["Bo", "Cy"], "LAST": 3}}
    assert table(log, "BOUGHT") == {b"11": {"NAME": "Cy", "AMOUNT": 7}}
    assert len(records(log, "BOUGHT")) == before + 2  # the tombstone and the row that changed
    assert table(log, "VISITS") == {session("a", 1_000, 30_000): {"N": 4}}
    assert (session("a", 30_000, 30_000), None) in records(log, "VISITS")

    assert all("nothing new" in each for each in run().said if each.startswith("CTAS_"))


def test_a_new_run_without_a_checkpoint_writes_nothing_that_is_there(run: Callable[[], Screen], log: ServedLog) -> None:
    before = {topic: len(records(log, topic)) for topic in ("BY_CITY", "BOUGHT")}
    assert before["BOUGHT"] > 0
    run()
    assert {topic: len(records(log, topic)) for topic in before} == before


@pytest.mark.slow
def test_a_group_without_rows_stays_after_a_restart_and_is_written_once(
    run: Callable[..., Screen], log: ServedLog, tmp_path: Path
) -> None:
    """Slow: several runs of a streaming query."""
    send(log, "staff", (1, {"CITY": "Oslo", "AGE": 30}), (2, {"CITY": "Rome", "AGE": 40}))
    run(COUNTED)
    send(log, "staff", (1, None))
    run(COUNTED)  # knows the groups by the topic that it writes
    wanted = [
        (b'"Oslo"', {"N": 1, "AGE": 30}), (b'"Oslo"', {"N": 0, "AGE": 0}), (b'"Rome"', {"N": 1, "AGE": 40}),
    ]  # fmt: skip
    assert sorted(records(log, "COUNTED"), key=lambda each: (each[0], -each[1]["N"])) == wanted

    # The micro-batch is repeated, as after a crash before Spark noted its end; what changed meanwhile comes after it.
    commits = tmp_path / "CTAS_COUNTED" / "commits"
    last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
    for each in commits.glob(f"*{last}*"):
        each.unlink()
    send(log, "staff", (2, None), (3, {"CITY": "Oslo", "AGE": 20}))
    run(COUNTED)
    assert records(log, "COUNTED")[:3].count((b'"Oslo"', {"N": 0, "AGE": 0})) == 1
    assert table(log, "COUNTED") == {b'"Oslo"': {"N": 1, "AGE": 20}, b'"Rome"': {"N": 0, "AGE": 0}}
    before = len(records(log, "COUNTED"))
    assert before == 5
    shutil.rmtree(tmp_path / "CTAS_COUNTED")  # a lost checkpoint
    run(COUNTED)
    assert len(records(log, "COUNTED")) == before


@pytest.mark.slow
def test_headers_of_tables_and_sessions_are_read(run: Callable[..., Screen], log: ServedLog) -> None:
    """Slow: several streaming queries."""
    log.create("parcels", 1, **{"cleanup.policy": "compact"})
    log.create("scans", 1)
    with producer_of(log) as producer:
        for key, place in ((b"1", b"Rome"), (b"2", b"Rome"), (b"1", b"Pisa")):
            producer.send("parcels", b'{"KG": 3}', key=key, headers=[("place", place)], timestamp_ms=1_000)
        producer.send("scans", b'{"N": 1}', key=b"1", headers=[("by", b"Ada")], timestamp_ms=2_000)
    run("""
        CREATE TABLE parcels (id INT PRIMARY KEY, kg INT, place BYTES HEADER('place'))
            WITH (KAFKA_TOPIC = 'parcels', FORMAT = 'JSON');
        CREATE STREAM scans (id INT KEY, n INT, who BYTES HEADER('by')) WITH (KAFKA_TOPIC = 'scans', FORMAT = 'JSON');
        CREATE TABLE places AS SELECT FROM_BYTES(place, 'ascii') AS place, SUM(kg) AS kg FROM parcels
            GROUP BY FROM_BYTES(place, 'ascii');
        CREATE STREAM scanned WITH (VALUE_FORMAT = 'JSON') AS SELECT scans.id AS id, FROM_BYTES(place, 'ascii') AS place
            FROM scans JOIN parcels ON scans.id = parcels.id;
        CREATE TABLE people AS SELECT id, LATEST_BY_OFFSET(FROM_BYTES(who, 'ascii')) AS who FROM scans
            WINDOW SESSION (10 SECONDS) GROUP BY id;
    """)
    assert table(log, "PLACES") == {b'"Pisa"': {"KG": 3}, b'"Rome"': {"KG": 3}}
    assert [value for _, value in records(log, "SCANNED")] == [{"PLACE": "Pisa"}]
    assert [value for _, value in records(log, "PEOPLE")] == [{"WHO": "Ada"}]
