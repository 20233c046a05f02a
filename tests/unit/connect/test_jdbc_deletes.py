"""Deleted rows of the JDBC source by comparison of keys, over restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from odradek.connect.connectors.jdbc.source import JdbcSourceConnector, JdbcSourceTask
from odradek.connect.data import plain
from odradek.connect.errors import ConfigError
from odradek.connect.record import Offset, SourceRecord
from odradek.testing.connect import SourceDriver
from odradek.testing.manual_clock import ManualClock

_CREATE = "CREATE TABLE t (a INTEGER NOT NULL, b TEXT NOT NULL, v TEXT, PRIMARY KEY (a, b))"


class Table:
    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 't.db'}"
        self.offsets: dict[str, Offset] = {}
        self.clock = ManualClock()

    def execute(self, *statements: str) -> None:
        engine = sa.create_engine(self.url)
        with engine.begin() as connection:
            for each in statements:
                connection.execute(sa.text(each))
        engine.dispose()

    def task(self, **more: str) -> SourceDriver:
        configs = {
            "connection.url": self.url, "mode": "bulk", "topic.prefix": "x-", "tables": "t",
            "delete.detection": "snapshot", "delete.detection.interval.ms": "10000", "poll.interval.ms": "1000000",
            **{name.replace("_", "."): value for name, value in more.items()},
        }  # fmt: skip
        driver = SourceDriver(JdbcSourceTask(), configs, self.clock, self.offsets)
        driver.start()
        return driver


def brief(records: list[SourceRecord]) -> list[tuple[Any, Any]]:
    return [(tuple(plain(each.key).values()), None if each.value is None else each.value["v"]) for each in records]


def test_rows_that_are_gone_become_tombstones_once_over_restarts(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.execute(_CREATE, "INSERT INTO t VALUES (1, 'x', 'one'), (2, 'y', 'two'), (3, 'z', 'three')")
    task = table.task()
    assert brief(task.poll_until(4)) == [((1, "x"), "one"), ((2, "y"), "two"), ((3, "z"), "three")]
    task.store()
    task.stop()
    table.execute("DELETE FROM t WHERE a = 2")
    task = table.task()
    assert brief(task.poll_until(4)) == [((1, "x"), "one"), ((3, "z"), "three"), ((2, "y"), None)]
    # What was not stored comes again, and what was stored does not.
    task.stop()
    task = table.task()
    assert brief(task.poll_until(4))[2:] == [((2, "y"), None)]
    task.store()
    task.stop()
    task = table.task()
    assert brief(task.poll_until(3)) == [((1, "x"), "one"), ((3, "z"), "three")]


def test_a_row_that_came_and_went_between_two_comparisons_is_seen(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.execute(_CREATE)
    task = table.task(poll_interval_ms="1000", delete_detection_interval_ms="5000", mode="incrementing",
                      incrementing_column_name="a")  # fmt: skip
    assert task.poll_until(1) == []
    table.execute("INSERT INTO t VALUES (1, 'x', 'one')")
    found = []
    while not found:
        found = task.poll()
    assert brief(found) == [((1, "x"), "one")]
    table.execute("DELETE FROM t")
    assert brief(task.poll_until(1)) == [((1, "x"), None)]


def test_mistakes_are_named(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.execute("CREATE TABLE t (a INTEGER)")
    with pytest.raises(ConfigError, match="needs a primary key"):
        table.task()
    configs = {"connection.url": table.url, "mode": "bulk", "topic.prefix": "x", "query": "SELECT 1",
               "delete.detection": "snapshot"}  # fmt: skip
    found = JdbcSourceConnector.validate(configs)
    assert found["delete.detection"].errors == ["delete.detection=snapshot needs tables, not a query"]
