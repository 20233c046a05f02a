"""A PostgreSQL database under load is copied while its server and the workers are killed: equal, and nothing twice.

Slow: kills, and what each of them takes to recover. ODRADEK_CDC_KILLS sets their number, ODRADEK_CDC_SEED the seed of
the load and of the kills.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.connect.copying import copying, rows_of
from tests.support.connect.kills import check_transactions, moved, progress, workers
from tests.support.connect.postgres import Postgres, postgres
from tests.support.connect.running import RunningCluster, embedded
from tests.support.connect.worker_process import WorkerProcess
from tests.support.kafka.port import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

KILLS = int(os.environ.get("ODRADEK_CDC_KILLS", "5"))
SEED = int(os.environ.get("ODRADEK_CDC_SEED", "1"))
TABLES = ("orders", "lines")
_IDS = itertools.count(1_000_000)
_COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = '{}'::regclass AND attnum > 0 AND NOT attisdropped"
_COLUMNS_OF_TABLE = "id bigint PRIMARY KEY, n int NOT NULL, price float8, at timestamptz, doc jsonb, big text"


class Load:
    """Writes to the tables from two connections until it is stopped."""

    def __init__(self, server: Postgres, database: str) -> None:
        self._server, self._database = server, database
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._main, args=(number,)) for number in range(2)]
        self.transactions = 0
        self.schema_changes = 0

    def __enter__(self) -> Load:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join()

    def _main(self, number: int) -> None:
        rng = random.Random(f"{SEED}-{number}")
        while not self._stop.is_set():
            with suppress(psycopg.OperationalError, psycopg.InterfaceError), self._connected() as connection:
                while not self._stop.is_set():
                    if number == 0 and rng.random() < 0.06:
                        self._change_schema(connection, rng)
                    with connection.transaction():
                        for _ in range(rng.choice((1, 1, 3, 20))):
                            self._write(connection, rng)
                    self.transactions += 1
                    self._stop.wait(rng.uniform(0, 0.1))  # the copy must keep up
            self._stop.wait(0.05)

    def _connected(self) -> psycopg.Connection[Any]:
        return self._server.connect(self._database)

    def _write(self, connection: psycopg.Connection[Any], rng: random.Random) -> None:
        table, kind = rng.choice(TABLES), rng.random()
        chosen = f"id = (SELECT id FROM {table} OFFSET {rng.randrange(300)} LIMIT 1)"
        if kind < 0.4:
            big = f"repeat(md5('{rng.random()}'), {rng.choice((1, 400))})"
            statement = f"INSERT INTO {table} (id, n, at, doc, big) VALUES ({next(_IDS)}, {rng.randrange(100)}, now(), "
            connection.execute(f"{statement} '{json.dumps({'x': rng.random()})}', {big})")
        elif kind < 0.75:
            connection.execute(
                f"UPDATE {table} SET n = {rng.randrange(100)}, price = {rng.random() * 100} WHERE {chosen}"
            )
        elif kind < 0.8:
            connection.execute(f"UPDATE {table} SET id = {next(_IDS)} WHERE {chosen}")
        else:
            connection.execute(f"DELETE FROM {table} WHERE {chosen}")

    def _change_schema(self, connection: psycopg.Connection[Any], rng: random.Random) -> None:
        """Add a column and fill it, or drop one that was added."""
        table, self.schema_changes = rng.choice(TABLES), self.schema_changes + 1
        added = connection.execute(f"{_COLUMNS.format(table)} AND attname LIKE 'c\\_%'").fetchall()
        if len(added) > 3:
            connection.execute(f"ALTER TABLE {table} DROP {added[0][0]}")
            return
        name = f"c_{next(_IDS)}"
        connection.execute(f"ALTER TABLE {table} ADD {name} {rng.choice(('int', 'text', 'numeric(8,2)'))}")
        connection.execute(f"UPDATE {table} SET {name} = '{rng.randrange(1000)}' WHERE id % 70 = 0")


def prepared(server: Postgres, name: str) -> str:
    database = server.database(name)
    for table in TABLES:
        server.execute(
            database,
            f"CREATE TABLE {table} ({_COLUMNS_OF_TABLE})",
            f"INSERT INTO {table} (id, n) SELECT n, n % 10 FROM generate_series(1, 3000) n",
        )
    return database


def test_the_copy_is_equal_and_nothing_is_there_twice(tmp_path: Path) -> None:
    rng, numbers, kinds = random.Random(SEED), itertools.count(2), Counter[str]()
    with postgres() as source, postgres() as target, embedded() as service:
        database, copy = prepared(source, "shop"), target.database("copy")
        with RunningCluster(service, workers=0) as running, workers(running, tmp_path) as running_now:
            copying(running, (source, database), (target, copy), *TABLES, **{
                "provide.transaction.metadata": "true", "snapshot.fetch.size": "200", "max.batch.size": "500",
            })  # fmt: skip
            with Load(source, database) as load:
                done = 0
                for _ in range(KILLS):
                    # A kill before the copy goes on again would only hit the recovery from the last one.
                    done = until(lambda done=done: moved(running, target, done), 120, f"more than {done} records")
                    time.sleep(rng.uniform(0.1, 1.0))
                    kind = rng.choice(("source", "target", "worker", "worker", "connection"))
                    kinds[kind] += 1
                    if kind in ("source", "target"):
                        server = source if kind == "source" else target
                        server.kill()
                        server.start()
                    elif kind == "worker":
                        victim = rng.randrange(len(running_now))
                        running_now[victim].kill()
                        running_now[victim] = WorkerProcess(running, next(numbers), tmp_path)
                    else:
                        source.execute(database, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots")
            for table in TABLES:
                copied_to_its_end(running, source, target, table)
            assert load.transactions > 5 * KILLS
            assert load.schema_changes > 0
            check_transactions(running, database, [f"{database}.public.{table}" for table in TABLES])
    print(f"kills: {dict(kinds)}; {load.transactions} transactions, {load.schema_changes} changes of the schema")


def copied_to_its_end(running: RunningCluster, source: Postgres, target: Postgres, table: str) -> None:
    """Wait for equal tables, for as long as the copy goes on: a busy machine has a long way to the end."""
    while found := differences(source, target, table):
        done = progress(target, more_than=0)
        what = f"{table}: {len(found)} rows differ, such as {next(iter(found.items()))}"
        until(lambda done=done: moved(running, target, done) or not differences(source, target, table), 120, what)


def differences(source: Postgres, target: Postgres, table: str) -> dict[Any, Any]:
    """Return rows that are not equal, in the columns that the source has."""
    wanted, found = rows_of(source, "shop", table), rows_of(target, "copy", table)
    columns = {name for (name,) in source.execute("shop", _COLUMNS.format(table))}
    kept = {key: {name: value for name, value in row.items() if name in columns} for key, row in found.items()}
    return {
        key: (wanted.get(key), kept.get(key)) for key in wanted.keys() | kept.keys() if wanted.get(key) != kept.get(key)
    }
