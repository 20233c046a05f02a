"""Signals, incremental snapshots and heartbeats of change capture, with a real PostgreSQL server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from odradek.connect.connectors.cdc.postgres.chunks import Chunks
from odradek.connect.data import plain
from odradek.connect.record import SourceRecord
from odradek.testing.connect import SourceDriver

from tests.support.connect.captured import Database, brief, database, replayed
from tests.support.connect.postgres import Postgres, postgres


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


@pytest.fixture
def db(server: Postgres, request: pytest.FixtureRequest) -> Iterator[Database]:
    with database(server, request.node.nodeid) as found:
        yield found


@pytest.mark.parametrize("strategy", ["insert_insert", "insert_delete"])
def test_an_incremental_snapshot_by_signals_over_changes_and_restarts(db: Database, strategy: str) -> None:
    db.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t SELECT n, 0 FROM generate_series(1, 20) n",
        "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)",
    )

    def task() -> SourceDriver:
        return db.task(
            snapshot_mode="no_data", signal_data_collection="public.signals", incremental_snapshot_chunk_size="3",
            incremental_snapshot_watermarking_strategy=strategy,
        )  # fmt: skip

    driver = task()
    driver.poll()
    data = json.dumps({"data-collections": ["public.t"], "type": "incremental"})
    db.execute(f"INSERT INTO signals VALUES ('s1', 'execute-snapshot', '{data}')")
    found: list[SourceRecord] = []
    for round in range(60):
        db.execute(f"UPDATE t SET v = {round} WHERE id = {1 + round % 20}", f"DELETE FROM t WHERE id = {21 - round}")
        some = driver.poll()
        found += some
        driver.store()
        if round % 5 == 4:
            driver.stop()
            driver = task()
    found += driver.poll_until(1000)
    reads = [key for op, key, _ in brief(found) if op == "r"]
    assert len(reads) == len(set(reads)), "a row was read twice"
    assert {each.value["source"]["snapshot"] for each in found if each.value and each.value["op"] == "r"} == {
        "incremental"
    }
    rows = replayed(found)
    stored = db.execute("SELECT to_jsonb(t) FROM t")
    assert rows == {(row["id"],): row for (row,) in stored}
    assert {each.topic for each in found} == {f"{db.name}.public.t"}
    assert "incremental" not in next(iter(db.offsets.values()))


def test_signals_of_a_topic_are_carried_out_once(db: Database, service: Any) -> None:
    db.execute(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t VALUES (1), (2)",
        "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)",
    )
    client = dict(service.client_config)
    configs = {"snapshot_mode": "no_data", "signal_data_collection": "public.signals",
               "signal_enabled_channels": "kafka", "signal_kafka_topic": f"signals-{db.name}"}  # fmt: skip

    def task() -> SourceDriver:
        driver = db.task(**configs)
        driver.client = client
        driver.poll()
        return driver

    def signal(key: str, value: bytes) -> None:
        with odradek.Producer(**client) as producer:
            producer.send(f"signals-{db.name}", value, key=key.encode()).result()

    driver = task()
    data = {"data-collections": ["public.t"], "type": "incremental"}
    order = json.dumps({"id": "1", "type": "execute-snapshot", "data": data}).encode()
    for key, value in (("other", order), (db.name, b"{"), (db.name, b"[]"), (db.name, order)):
        signal(key, value)
    db.execute(f"INSERT INTO signals VALUES ('1', 'execute-snapshot', '{json.dumps(data)}')")  # source is not enabled
    found = polled(driver, 2)
    assert [(op, key) for op, key, _ in brief(found)] == [("r", (1,)), ("r", (2,))]
    driver.store()
    driver.stop()
    driver = task()
    db.execute("INSERT INTO t VALUES (3)")
    assert [op for op, _, _ in brief(polled(driver, 1))] == ["c"], "the signal came again"
    signal(db.name, order)
    assert [op for op, _, _ in brief(polled(driver, 3))] == ["r", "r", "r"]


def polled(driver: SourceDriver, count: int) -> list[SourceRecord]:
    """Poll until there are so many records; a topic of signals is read in the background."""
    found: list[SourceRecord] = []
    end_s = time.monotonic() + 20
    while len(found) < count and time.monotonic() < end_s:
        found += driver.poll()
    return found


def test_rows_that_change_while_their_chunk_is_read_are_not_overwritten(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes come between the watermarks, after the rows were read: the chunk has older rows than the stream."""
    db.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t SELECT n, 0 FROM generate_series(1, 4) n",
        "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)",
    )
    read = Chunks.chunk

    def chunk(self: Chunks, *arguments: Any) -> Any:
        found = read(self, *arguments)
        db.execute("UPDATE t SET v = 9 WHERE id = 2", "DELETE FROM t WHERE id = 3", "UPDATE t SET id = 5 WHERE id = 4")
        return found

    monkeypatch.setattr(Chunks, "chunk", chunk)
    task = db.task(snapshot_mode="no_data", signal_data_collection="public.signals")
    task.poll()
    data = json.dumps({"data-collections": ["public.t"]})
    db.execute(f"INSERT INTO signals VALUES ('1', 'execute-snapshot', '{data}')")
    found = brief(task.poll_until(8))
    assert [(op, key) for op, key, _ in found] == [
        ("u", (2,)), ("d", (3,)), (None, (3,)), ("d", (4,)), (None, (4,)), ("c", (5,)), ("r", (1,)),
    ]  # fmt: skip


def test_signals_that_are_wrong_are_passed_and_a_filter_and_stop_are_kept(db: Database) -> None:
    db.execute(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t SELECT generate_series(1, 9)",
        "CREATE TABLE keyless (id int)",
        "CREATE TABLE signals (id text, type text, data text)",
    )
    task = db.task(snapshot_mode="no_data", signal_data_collection="public.signals")
    task.poll()
    filtered = {"data-collection": "public.t", "filter": "id % 4 = 0"}
    signals = [
        ("execute-snapshot", "not JSON"),
        ("execute-snapshot", json.dumps({"data-collections": ["public.unknown"]})),
        ("unknown", ""),
        ("execute-snapshot", json.dumps({"data-collections": ["public.keyless"]})),
        ("execute-snapshot", json.dumps({"data-collections": ["public.t"], "additional-conditions": [filtered]})),
    ]
    for number, (kind, text) in enumerate(signals):
        db.execute(f"INSERT INTO signals VALUES ('{number}', '{kind}', '{text}')")
    assert [key for _, key, _ in brief(task.poll_until(3))] == [(4,), (8,)]
    data = json.dumps({"data-collections": ["public.t"]})
    with db.server.connect(db.name) as connection, connection.transaction():  # both before a chunk is read
        connection.execute(f"INSERT INTO signals VALUES ('6', 'execute-snapshot', '{data}')")
        connection.execute("INSERT INTO signals VALUES ('7', 'stop-snapshot', '{}')")
    assert task.poll_until(1) == []


def test_heartbeats_execute_a_statement_and_tell_the_lag(db: Database) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE beats (n int)")
    task = db.task(
        heartbeat_interval_ms="1", heartbeat_action_query="INSERT INTO beats VALUES (1)", table_include_list="public.t"
    )
    task.poll()
    [first, *_] = task.poll_until(2)
    assert first.topic == f"__debezium-heartbeat.{db.name}"
    assert plain(first.key) == {"serverName": db.name}
    assert first.value["slot_status"] == "reserved"
    assert first.value["lag_bytes"] >= 0
    assert first.source_offset is not None
    assert db.execute("SELECT count(*) FROM beats")[0][0] >= 2
