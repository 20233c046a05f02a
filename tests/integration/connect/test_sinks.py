"""Sink connectors: every record reaches the task, errors go where they were sent, tasks share partitions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.connect.errors import BadRequest, Conflict

from tests.support.connect import plugins
from tests.support.connect.plugins import EVENTS, FAIL, KEEPER, values
from tests.support.connect.running import RunningCluster
from tests.support.kafka.port import until


def kept(name: str, count: int) -> list[Any]:
    until(lambda: len(values(name)) >= count, 30, lambda: f"{name}: {count} records, {len(values(name))} now")
    return values(name)


def test_records_arrive_converted_and_transformed(running: RunningCluster) -> None:
    topic = running.topic("in-1")
    running.produce(topic, *({"n": n, "secret": "x"} for n in range(20)), None, key=b"k")
    transforms = {
        "transforms": "mask,drop",
        "transforms.mask.type": "MaskField$Value",
        "transforms.mask.fields": "secret",
        "transforms.mask.predicate": "tombstone",
        "transforms.mask.negate": "true",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "tombstone",
        "predicates": "tombstone",
        "predicates.tombstone.type": "RecordIsTombstone",
    }
    running.create("s1", {"connector.class": KEEPER, "topics": topic, **transforms})
    assert kept("s1", 20) == [{"n": n, "secret": ""} for n in range(20)]
    assert plugins.KEPT["s1"][0].key == "k"
    # The dropped tombstone counts as done.
    done = {"partition": {"kafka_topic": topic, "kafka_partition": 0}, "offset": {"kafka_offset": 21}}
    until(lambda: running.cluster.offsets("s1") == {"offsets": [done]}, 10, "committed")


def test_tasks_of_two_workers_share_the_partitions(service: Any) -> None:
    with RunningCluster(service) as running:
        topic = running.topic("in-2", partitions=4)
        running.create("s2", {"connector.class": KEEPER, "topics": topic}, tasks=2)
        running.produce(topic, *range(100))
        kept("s2", 100)
        running.add_worker("late")
        until(lambda: len({each["worker_id"] for each in running.cluster.status("s2")["tasks"]}) == 2, 30, "shared")
        running.wait_running("s2", 2)
        running.produce(topic, *range(100, 300))
        # At least once: what was put and not committed when the task moved comes again.
        until(lambda: set(values("s2")) == set(range(300)), 30, "all")
        assert {record.partition for record in plugins.KEPT["s2"]} == {0, 1, 2, 3}


def test_a_target_that_is_away_for_a_while_fails_no_task(running: RunningCluster) -> None:
    parts = {"s3": 3, "s3/connector": 2, "s3/tasks": 2, "s3/start": 2, "s3/open": 2}
    FAIL.update(parts)
    topic = running.topic("in-3")
    running.produce(topic, *range(10))
    running.create("s3", {"connector.class": KEEPER, "topics": topic})
    assert kept("s3", 10) == list(range(10))
    assert {FAIL[each] for each in parts} == {0}
    assert EVENTS["s3"] == ["open 1"]


def test_a_bad_record_fails_the_task_unless_it_is_tolerated(running: RunningCluster) -> None:
    topic = running.topic("in-4")
    running.produce(topic, {"n": 1}, b"not json", {"n": 2})
    configs = {"connector.class": KEEPER, "topics": topic}
    running.cluster.create("s4", configs)
    trace = running.trace("s4")
    assert "the bytes are not JSON" in trace
    assert "errors.tolerance=all" in trace
    letters = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "letters",
        "errors.deadletterqueue.context.headers.enable": "true",
        "refuse": "2",
    }
    running.cluster.put_config("s4", {**configs, **letters})
    running.wait_running("s4")
    assert kept("s4", 1) == [{"n": 1}]
    first, second = running.read("letters", 2)
    assert (first.value, second.value) == (b"not json", b'{"n": 2}')
    headers = {name.removeprefix("__connect.errors."): value for name, value in first.headers}
    assert headers.pop("exception.stacktrace").startswith(b"Traceback")
    assert b"not JSON" in headers.pop("exception.message")
    assert headers == {
        "topic": topic.encode(),
        "partition": b"0",
        "offset": b"1",
        "connector.name": b"s4",
        "task.id": b"0",
        "stage": b"VALUE_CONVERTER",
        "class.name": b"odradek.connect.converters.json.JsonConverter",
        "exception.class.name": b"odradek.connect.errors.DataError",
    }
    assert dict(second.headers)["__connect.errors.stage"] == b"TASK_PUT"


def test_pause_keeps_the_partitions_and_reads_nothing(running: RunningCluster) -> None:
    topic = running.topic("in-5")
    running.create("s5", {"connector.class": KEEPER, "topics": topic})
    running.produce(topic, 1)
    kept("s5", 1)
    running.cluster.set_target("s5", "PAUSED")
    running.wait_states("s5", "PAUSED", "PAUSED")
    running.produce(topic, 2)
    running.cluster.set_target("s5", "STARTED")
    running.wait_running("s5")
    assert kept("s5", 2) == [1, 2]
    assert EVENTS["s5"].count("open 1") == 1, "the task stayed in its group"


def test_offsets_of_a_stopped_sink_can_be_changed(running: RunningCluster) -> None:
    topic = running.topic("in-6")
    running.produce(topic, *range(5))
    running.create("s6", {"connector.class": KEEPER, "topics": topic})
    kept("s6", 5)
    running.cluster.set_target("s6", "STOPPED")
    running.wait_states("s6", "STOPPED")
    place = {"kafka_topic": topic, "kafka_partition": 0}
    with pytest.raises(BadRequest, match="kafka_topic"):
        running.cluster.alter_offsets("s6", [{"partition": {"topic": topic}, "offset": {"kafka_offset": 1}}])
    running.cluster.alter_offsets("s6", [{"partition": place, "offset": {"kafka_offset": 3}}])
    running.cluster.set_target("s6", "STARTED")
    assert kept("s6", 7) == [0, 1, 2, 3, 4, 3, 4]
    running.cluster.set_target("s6", "STOPPED")
    running.wait_states("s6", "STOPPED")
    until(lambda: _resets(running, "s6"), 20, "the group is empty")
    assert running.cluster.offsets("s6") == {"offsets": []}
    running.cluster.set_target("s6", "STARTED")
    assert kept("s6", 12)[7:] == list(range(5))


def test_offsets_that_a_database_keeps_are_changed_with_the_groups(running: RunningCluster, tmp_path: Path) -> None:
    """Exactly once: the offsets in the target count, and those of the group may be behind them, or not be there."""
    topic = running.topic("in-8")
    running.produce(topic, *({"n": n} for n in range(5)))
    file = tmp_path / "rows.db"
    running.create(
        "s8",
        {
            "connector.class": "JdbcSink", "topics": topic, "connection.url": f"sqlite:///{file}",
            "table.name.format": "rows", "auto.create": "true", "exactly.once": "true",
        },
    )  # fmt: skip

    def numbers() -> list[int]:
        try:
            with closing(sqlite3.connect(file)) as connection:
                return [n for (n,) in connection.execute("SELECT n FROM rows ORDER BY n")]
        except sqlite3.OperationalError:
            return []

    def stopped() -> None:
        running.cluster.set_target("s8", "STOPPED")
        running.wait_states("s8", "STOPPED")

    until(lambda: numbers() == [0, 1, 2, 3, 4], 30, "the rows")
    stopped()
    place = {"kafka_topic": topic, "kafka_partition": 0}
    until(lambda: _succeeds(lambda: running.cluster.alter_offsets("s8", [{"partition": place, "offset":
                                                                          {"kafka_offset": 3}}])), 20)  # fmt: skip
    running.cluster.set_target("s8", "STARTED")
    until(lambda: numbers() == [0, 1, 2, 3, 3, 4, 4], 30, "two rows again")
    stopped()
    until(lambda: _resets(running, "s8"), 20, "the group is empty")
    running.cluster.set_target("s8", "STARTED")
    until(lambda: numbers() == [0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4], 30, "all rows again")
    # Nothing is committed in the group: its offsets are reset all the same.
    stopped()
    with odradek.Admin(**running.client) as admin:
        until(lambda: _succeeds(lambda: admin.delete_consumer_groups(["connect-s8"])), 20)
    running.cluster.reset_offsets("s8")
    running.cluster.set_target("s8", "STARTED")
    until(lambda: len(numbers()) == 17, 30, "all rows again")


def _succeeds(act: Callable[[], object]) -> bool:
    try:
        act()
    except (Conflict, odradek.KafkaError):
        return False
    return True


def _resets(running: RunningCluster, name: str) -> bool:
    try:
        running.cluster.reset_offsets(name)
    except Conflict:
        return False
    return True


def test_topics_by_a_pattern(running: RunningCluster) -> None:
    running.topic("by-pattern-1")
    running.create("s7", {"connector.class": KEEPER, "topics.regex": "by-pattern-.*"})
    running.produce("by-pattern-1", "a")
    assert kept("s7", 1) == ["a"]
    assert running.cluster.topics("s7") == {"s7": {"topics": ["by-pattern-1"]}}
