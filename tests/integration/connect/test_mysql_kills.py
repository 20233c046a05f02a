"""A MariaDB or MySQL database under load is copied while its server and the workers are killed: equal, nothing twice.

Slow: kills, and what each of them takes to recover. ODRADEK_CDC_KILLS sets their number, ODRADEK_CDC_SEED the seed of
the load and of the kills.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.support.connect.copying import CONVERTERS, sink_configs
from tests.support.connect.kills import check_transactions, moved, progress, workers
from tests.support.connect.mysql import KINDS, Server, missing, mysql_server
from tests.support.connect.postgres import Postgres, postgres
from tests.support.connect.running import RunningCluster, embedded
from tests.support.connect.worker_process import WorkerProcess
from tests.support.kafka.port import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

KILLS = int(os.environ.get("ODRADEK_CDC_KILLS", "3"))
SEED = int(os.environ.get("ODRADEK_CDC_SEED", "1"))
TABLES = ("orders", "parts")
_IDS = itertools.count(1_000_000)
_DURABLE = {"innodb-flush-log-at-trx-commit": 1, "sync-binlog": 1}


class Load:
    """Writes to the tables from two connections until it is stopped."""

    def __init__(self, server: Server) -> None:
        self._server, self._stop = server, threading.Event()
        self._threads = [threading.Thread(target=self._main, args=(number,)) for number in range(2)]
        self.transactions = 0

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
            with suppress(pymysql.err.MySQLError, OSError):
                connection = pymysql.connect(
                    host="127.0.0.1", port=self._server.port, user="root", database="shop", charset="utf8mb4"
                )
                with connection, connection.cursor() as cursor:
                    while not self._stop.is_set():
                        for _ in range(rng.choice((1, 1, 3, 20))):
                            cursor.execute(self._statement(rng))
                        connection.commit()
                        self.transactions += 1
                        self._stop.wait(rng.uniform(0, 0.1))  # the copy must keep up
            self._stop.wait(0.05)

    def _statement(self, rng: random.Random) -> str:
        table, kind = rng.choice(TABLES), rng.random()
        chosen = f"id = (SELECT id FROM (SELECT id FROM {table} LIMIT 1 OFFSET {rng.randrange(300)}) chosen)"
        if kind < 0.4:
            big = f"repeat(md5('{rng.random()}'), {rng.choice((1, 400))})"
            return f"INSERT INTO {table} VALUES ({next(_IDS)}, {rng.randrange(100)}, NULL, {big})"
        if kind < 0.75:
            return f"UPDATE {table} SET n = {rng.randrange(100)}, price = {rng.randrange(9999)} / 100 WHERE {chosen}"
        if kind < 0.8:
            return f"UPDATE {table} SET id = {next(_IDS)} WHERE {chosen}"
        return f"DELETE FROM {table} WHERE {chosen}"


@pytest.mark.parametrize("kind", KINDS)
def test_the_copy_is_equal_and_nothing_is_there_twice(kind: str, tmp_path: Path) -> None:
    why = missing(kind)
    if why:
        pytest.skip(why)
    rng, numbers, kinds = random.Random(SEED), itertools.count(2), Counter[str]()
    with mysql_server(kind, **_DURABLE) as source, postgres() as target, embedded() as service:
        source.execute("CREATE DATABASE shop", "USE shop")
        copy = target.database("copy")
        for table in TABLES:
            columns = "id bigint PRIMARY KEY, n int NOT NULL, price decimal(8,2), big text"
            rows = ", ".join(f"({n}, {n % 7}, {n}.5, 'row {n}')" for n in range(500))
            source.execute("USE shop", f"CREATE TABLE {table} ({columns})", f"INSERT INTO {table} VALUES {rows}")
        with RunningCluster(service, workers=0) as running, workers(running, tmp_path) as running_now:
            more = {"snapshot.fetch.size": "200", "max.batch.size": "500", "provide.transaction.metadata": "true"}
            capture = source.configs("shop", **more, **{"topic.prefix": "shop"})
            running.cluster.create("capture", {**capture, **CONVERTERS})
            topics = [f"shop.shop.{table}" for table in TABLES]
            running.cluster.create("copy", sink_configs(topics, target.url(copy)))
            with Load(source) as load:
                done = 0
                for _ in range(KILLS):
                    done = until(lambda done=done: moved(running, target, done), 120, f"more than {done} records")
                    time.sleep(rng.uniform(0.1, 1.0))
                    what = rng.choice(("source", "source", "worker", "connection"))
                    kinds[what] += 1
                    if what == "source":
                        source.stop()
                        source.start()
                    elif what == "worker":
                        victim = rng.randrange(len(running_now))
                        running_now[victim].kill()
                        running_now[victim] = WorkerProcess(running, next(numbers), tmp_path)
                    else:
                        end_readers(source)
            for table in TABLES:
                copied_to_its_end(running, source, target, table)
            assert load.transactions > 5 * KILLS
            check_transactions(running, "shop", topics)
    print(f"{kind}, kills: {dict(kinds)}; {load.transactions} transactions")


def end_readers(server: Server) -> None:
    for id, *_, command, _time, _state, _info in (row[:8] for row in server.execute("SHOW PROCESSLIST")):
        if str(command).startswith("Binlog Dump"):
            with suppress(pymysql.err.MySQLError):
                server.execute(f"KILL {id}")


def differences(source: Server, target: Postgres, table: str) -> dict[Any, Any]:
    wanted = {row[0]: row for row in source.execute("USE shop", f"SELECT * FROM {table}")}
    if target.execute("copy", f"SELECT to_regclass('{table}')")[0][0] is None:
        return wanted
    found = {row[0]: row for row in target.execute("copy", f"SELECT id, n, price, big FROM {table}")}
    return {
        key: (wanted.get(key), found.get(key))
        for key in wanted.keys() | found.keys()
        if wanted.get(key) != found.get(key)
    }


def copied_to_its_end(running: RunningCluster, source: Server, target: Postgres, table: str) -> None:
    while found := differences(source, target, table):
        done = progress(target, more_than=0)
        what = f"{table}: {len(found)} rows differ, such as {next(iter(found.items()))}"
        until(lambda done=done: moved(running, target, done) or not differences(source, target, table), 120, what)
