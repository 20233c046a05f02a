"""Trino reads the Iceberg tables of topics in Glue's catalog, as Athena would: every row is that of a Kafka consumer.

It needs a Java that is newer than that of the other tests: `ODRADEK_TRINO_JAVA=/path/to/java make java`.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from odradek.adapters.iceberg import IcebergCatalog
from odradek.engine.engine import Engine
from odradek.model.log import DeleteRecordsPartition
from odradek.system import SystemClock, SystemRng

from tests.integration.query.test_iceberg import SMALL, TABLE, Row, consumed, covered, fill, iceberg, maintained
from tests.java.trino import Trino, running_trino
from tests.support.spark.session import LiveLog
from tests.support.stores.aws import CREDENTIALS, REGION, StoreNames, create_tables, moto_server, open_store

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

_FLIGHTS = "odradek.odradek.flights"
_MS = """date_diff('millisecond', TIMESTAMP '1970-01-01 00:00:00 UTC', "timestamp")"""


@pytest.fixture(autouse=True, scope="session")
def java_clients() -> None:
    """Needs none of the clients' programs."""


class AwsLog(LiveLog):
    """A log on the emulator of AWS, whose tables are in Glue's catalog."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint, self._names = endpoint, StoreNames()
        super().__init__(Path(), **SMALL)

    @property
    def catalog(self) -> dict[str, str]:
        return {
            "type": "glue",
            "warehouse": f"s3://{self._names.bucket}/iceberg",
            "client.region": REGION,
            "glue.endpoint": self._endpoint,
            "s3.endpoint": self._endpoint,
        }

    async def _open(self) -> Any:
        store = open_store(self._endpoint, create_tables(self._endpoint, self._names))
        self._objects = store.objects
        self.engine = Engine(
            tables=store, objects=store.objects, clock=SystemClock(), rng=SystemRng(), settings=self._settings
        ).keep_tables(IcebergCatalog(self.catalog, f"s3://{self._names.bucket}"))
        return store

    def files(self) -> list[str]:
        """The keys of data files."""
        objects = self._run(self._objects.list("topics/"))
        return sorted(info.key for info in objects if info.key.endswith(".parquet"))


def rows_of(trino: Trino) -> list[Row]:
    raw_rows = trino.query(f'SELECT partition, "offset", {_MS}, key, value, headers FROM {_FLIGHTS}')
    rows = [
        (*row[:3], _bytes(row[3]), _bytes(row[4]), tuple((name, _bytes(value)) for name, value in row[5]))
        for row in raw_rows
    ]
    return sorted(rows, key=lambda row: row[:2])


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def count(trino: Trino, where: str) -> int:
    [[number]] = trino.query(f"SELECT count(*) FROM {_FLIGHTS} WHERE {where}")
    return int(number)


def test_every_row_is_that_of_a_consumer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with moto_server() as endpoint, running_trino(tmp_path / "trino", endpoint) as trino, AwsLog(endpoint) as log:
        log.create("flights", 2, **TABLE)
        fill(log, 0, 1000)
        maintained(log)
        second = [key for key in log.files() if "/0/" in key][1]
        log._run(log.engine.delete_records([DeleteRecordsPartition("flights", 0, int(second.rpartition("/")[2][:20]))]))
        alter = log.engine.topics.alter_configs
        log._run(alter("flights", set={"odradek.table.schema": "origin string, delay bigint, note string"}))
        fill(log, 1000, 1600)
        maintained(log)
        expected = consumed(log, covered(iceberg(log)))
        assert rows_of(trino) == expected
        delays = iceberg(log).scan(row_filter="delay >= 690 AND delay < 720").count()
        assert count(trino, "delay >= 690 AND delay < 720") == delays > 0
        early = sum(row[2] < 0 for row in expected)
        assert count(trino, "\"timestamp\" < TIMESTAMP '1970-01-01 00:00:00 UTC'") == early > 0
        assert count(trino, 'partition = 1 AND "offset" BETWEEN 100 AND 130') == 31
        assert 0 < count(trino, "note IS NOT NULL") < len(expected), "older files have no such column"

        before = log.files()
        trino.query(f"DROP TABLE {_FLIGHTS}")
        assert log.files() == before, "no engine deletes the log's files"
        fill(log, 1600, 2200)
        maintained(log)
        assert rows_of(trino) == consumed(log, covered(iceberg(log))), "and the table is made again"
