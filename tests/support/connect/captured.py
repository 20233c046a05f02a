"""A database of a real PostgreSQL server that is captured task by task, and its records in brief."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from odradek.connect.connectors.cdc.postgres.source import PostgresSourceConnector, PostgresSourceTask
from odradek.connect.data import plain
from odradek.connect.record import Offset, SourceRecord
from odradek.testing.connect import SourceDriver

from tests.support.connect.postgres import Postgres


class RealClock:
    """ports.clock.Clock of the machine."""

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def monotonic(self) -> float:
        return time.monotonic()


class Database:
    """A database, and at most one task that captures it."""

    def __init__(self, server: Postgres, name: str) -> None:
        self.server, self.name = server, name
        self.offsets: dict[str, Offset] = {}
        self.drivers: list[SourceDriver] = []

    def execute(self, *statements: str) -> list[Any]:
        return self.server.execute(self.name, *statements)

    def task(self, **configs: str) -> SourceDriver:
        """Return a new task at the stored offsets."""
        given = self.server.configs(self.name, **configs)
        problems = {name: each.errors for name, each in PostgresSourceConnector.validate(given).items() if each.errors}
        assert problems == {}
        driver = SourceDriver(PostgresSourceTask(), given, RealClock(), self.offsets)  # type: ignore[arg-type]
        driver.start()
        self.drivers.append(driver)
        return driver

    def stop(self) -> None:
        for each in self.drivers:
            each.stop()
        self.drivers = []

    def slot(self, column: str) -> Any:
        return self.execute(f"SELECT {column} FROM pg_replication_slots WHERE slot_name = 'slot_{self.name}'")[0][0]


def brief(records: list[SourceRecord]) -> list[tuple[Any, ...]]:
    """Operation, key and row of each record; a tombstone has none of them but its key."""
    found = []
    for each in records:
        value, key = plain(each.value), plain(each.key)
        row = None if value is None else value["after"] or value["before"]
        found.append((None if value is None else value["op"], None if key is None else tuple(key.values()), row))
    return found


def replayed(records: list[SourceRecord], state: dict[Any, Any] | None = None) -> dict[Any, Any]:
    """Return the rows by key after all records, as a sink that upserts would have them."""
    rows = {} if state is None else state
    for op, key, row in brief(records):
        if op in (None, "d"):
            rows.pop(key, None)
        elif op != "t":
            rows[key] = row
        else:
            rows.clear()
    return rows


@contextmanager
def database(server: Postgres, test: str) -> Iterator[Database]:
    """A new database for a test, which is dropped behind it."""
    name = server.database(f"db{abs(hash(test))}")
    found = Database(server, name)
    yield found
    found.stop()
    server.drop(name)
