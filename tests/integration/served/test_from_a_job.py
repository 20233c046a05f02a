"""A job that works on the tables and the bucket alone, as on Glue: its script serves a table that its sink writes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from odradek.adapters.memory import MemoryTaskQueue
from odradek.engine.engine import Engine
from odradek.engine.marks import decode_wake
from odradek.errors import ErrorCode, KafkaError
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.log import ProducePartition
from odradek.served.wiring import TableParts, wire_tables
from odradek.settings import Settings
from odradek.spark.options import parse_store
from odradek.spark.sink.commit import SinkStore
from odradek.sql.session import Session, check
from odradek.sql.topics import OpenTopics
from odradek.system import SystemClock, SystemRng

from tests.support.services.served import ALL, ANY_TIME
from tests.support.stores.aws import CREDENTIALS, REGION, StoreNames, create_tables, moto_server, open_store

SCRIPT = """
CREATE TABLE scores (name VARCHAR PRIMARY KEY, points INT)
  WITH (KAFKA_TOPIC = 'scores', VALUE_FORMAT = 'JSON', PARTITIONS = 1, SERVED = TRUE);
DROP TABLE scores;
"""


class Screen:
    """Lines that a job logs."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def table(self, *_: Any) -> None: ...

    def rows(self, *_: Any) -> None: ...

    def say(self, text: str) -> None:
        self.said.append(text)


def write(options: dict[str, str], batch_id: int, *rows: tuple[bytes, bytes | None]) -> None:
    """Write as the sink does: an upload, and a numbered commit."""
    builder = RecordBatchBuilder()
    for key, value in rows:
        builder.append(SystemClock().now_ms(), key, value)
    with SinkStore(parse_store(options)) as sink:
        uploaded = sink.upload([ProducePartition("scores", 0, builder.build())]).result()
        for _ in range(2):  # a micro-batch that is repeated
            sink.commit("spark/q/main", batch_id, uploaded)


async def maintained(endpoint: str, names: StoreNames, *keys: str) -> list[Any]:
    """Run the functions of every minute; return the values of keys then."""
    queue = MemoryTaskQueue()
    async with open_store(endpoint, names) as store:
        settings = Settings(catalog_cache_ms=0)
        engine = Engine(tables=store, objects=store.objects, clock=store.clock, rng=SystemRng(), settings=settings)
        parts: TableParts = wire_tables(engine, store.rows, queue)
        await parts.sweep.run()
        while queue.messages:
            wake = decode_wake(queue.messages.pop(0))
            topic = await engine.topics.get_by_id(wake.head_id.topic_id)
            await parts.maintainer.handle(topic, wake, store.clock.monotonic() + 60)
        row_lists = [(await parts.reader.get("SCORES", key, ALL, ANY_TIME)).rows for key in keys]
        return [rows[0].value if rows else None for rows in row_lists]


def test_a_script_on_glue_serves_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with moto_server() as endpoint:
        names = create_tables(endpoint)
        options = {
            "store": "aws", "logTable": names.log_table, "catalogTable": names.catalog_table, "bucket": names.bucket,
            "region": REGION, "endpointUrl": endpoint,
        }  # fmt: skip
        created, dropped = (step.action for step in check([("", SCRIPT)]))
        screen = Screen()
        with OpenTopics(options, None) as topics:
            session = Session(None, topics, screen, once=True)  # type: ignore[arg-type]
            session.perform(created)
            session.perform(created)  # the job runs again
            assert "SCORES is served as table SCORES" in screen.said
            write(options, 0, (b"ada", b'{"POINTS": 3}'), (b"bob", b'{"POINTS": 1}'))
            assert asyncio.run(maintained(endpoint, names, "ada", "bob")) == [{"POINTS": 3}, {"POINTS": 1}]
            write(options, 1, (b"ada", b'{"POINTS": 4}'), (b"bob", None))
            assert asyncio.run(maintained(endpoint, names, "ada", "bob")) == [{"POINTS": 4}, None]
            session.perform(dropped)
            with pytest.raises(KafkaError) as refused:
                asyncio.run(maintained(endpoint, names, "ada"))
            assert refused.value.code is ErrorCode.RESOURCE_NOT_FOUND
            topics.unserve("SCORES")  # nothing is left to do
