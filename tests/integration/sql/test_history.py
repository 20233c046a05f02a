"""A versioned table in a streaming query: what is kept between micro-batches, and what comes out of order."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from odradek.sql.session import Session, check

from tests.integration.sql.test_on_spark import Screen, producer_of
from tests.support.spark.sink import ServedLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = """
    CREATE STREAM sold (id VARCHAR KEY, item VARCHAR) WITH (KAFKA_TOPIC = 'sold', VALUE_FORMAT = 'JSON');
    CREATE TABLE prices (item VARCHAR PRIMARY KEY, price INT)
        WITH (KAFKA_TOPIC = 'prices', VALUE_FORMAT = 'JSON', HISTORY_RETENTION = '10 SECONDS');
    CREATE STREAM paid AS SELECT s.item, s.id AS id, price FROM sold s LEFT JOIN prices p ON s.item = p.item;
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedLog]:
    with ServedLog(tmp_path_factory.mktemp("history") / "store") as served:
        served.create("sold", 1)
        served.create("prices", 1, **{"cleanup.policy": "compact"})
        yield served


@pytest.mark.slow
def test_a_record_gets_the_price_of_its_time(spark: SparkSession, log: ServedLog, tmp_path: Path) -> None:
    """Slow: three runs of a streaming query, of which two keep the versions that the one before kept."""
    from odradek.spark.options import parse_store
    from odradek.sql.on_spark import SparkEngine
    from odradek.sql.running.history import HistoryTable
    from odradek.sql.topics import OpenTopics

    store = {"store": log.source["store"]}
    assert parse_store(store).data_dir is not None
    table = HistoryTable(spark, {**store, "subscribe": "prices"}, 10_000)

    def prices(*records: tuple[int, int | None]) -> list[tuple[int, bool]]:
        """Write prices of one item; return the times of the versions that are kept, and whether they are tombstones."""
        with producer_of(log) as producer:
            for at, price in records:
                value = None if price is None else json.dumps({"PRICE": price}).encode()
                producer.send("prices", value, key=b"tea", timestamp_ms=at)
        kept = [(row["timestamp"].timestamp() * 1000, row["value"] is None) for row in table.now().collect()]
        return sorted((round(at), is_gone) for at, is_gone in kept)

    def sold(*times: int) -> list[int | None]:
        """Write sales, run the query, and return the prices of all sales so far, in the order of their times."""
        with producer_of(log) as producer:
            for at in times:
                producer.send("sold", json.dumps({"ITEM": "tea"}).encode(), key=str(at).encode(), timestamp_ms=at)
        engine = SparkEngine(
            spark, store=store, sink=log.sink, checkpoints=str(tmp_path / "checkpoints"), stop=threading.Event()
        )
        with OpenTopics(store, log.bootstrap_servers) as topics:
            Session(engine, topics, Screen(), once=True).run(check([("", SCRIPT)]))
        engine.close()
        found = [json.loads(each) for each in log.values("PAID")]
        return [each["PRICE"] for each in sorted(found, key=lambda each: int(each["ID"]))]

    assert prices((1_000, 10), (5_000, 12)) == [(1_000, False), (5_000, False)]
    assert sold(900, 1_000, 4_999, 5_000) == [None, 10, 10, 12]
    # A price of a time between, a tombstone, and one so much later that the first versions are forgotten.
    assert prices((3_000, 11), (7_000, None)) == [(1_000, False), (3_000, False), (5_000, False), (7_000, True)]
    assert sold(3_500, 8_000) == [None, 10, 11, 10, 12, None]
    assert prices((16_000, 20)) == [(5_000, False), (7_000, True), (16_000, False)]
    assert sold(5_999, 6_001, 16_001) == [None, 10, 11, 10, 12, None, 12, None, 20]
