"""A PostgreSQL database copied into another one: change capture, topics, unwrap, and the JDBC sink, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from odradek.connect.connectors.jdbc.sink import JdbcSinkConnector
from odradek.connect.data import logical, semantic
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, struct
from odradek.connect.data.structs import Struct
from odradek.connect.errors import RetriableError
from odradek.connect.record import SinkRecord
from odradek.testing.connect import SINK_CHECKS, SinkDriver, SinkUnderTest
from odradek.testing.contract import check_id

from tests.support.connect.copying import TABLE, copied, copying
from tests.support.connect.postgres import Postgres, postgres
from tests.support.connect.running import RunningCluster, embedded
from tests.support.kafka.port import until


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


@pytest.fixture
def db(server: Postgres, request: pytest.FixtureRequest) -> Iterator[str]:
    name = server.database(f"db{abs(hash(request.node.nodeid))}")
    yield name
    server.drop(name)


# --- the sink against PostgreSQL --------------------------------------------------------------------------------------

_INFINITY = 9_223_372_036_825_200_000
_MODES = {
    "exactly once": {"exactly.once": "true"},
    "upsert": {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"},
}


@pytest.mark.parametrize("check", SINK_CHECKS, ids=check_id)
@pytest.mark.parametrize("mode", _MODES)
def test_the_sink_keeps_its_contract_on_postgresql(
    server: Postgres, db: str, mode: str, check: Callable[[SinkUnderTest], None]
) -> None:
    def read() -> list[int]:
        exists = server.execute(db, "SELECT to_regclass('rows')")[0][0]
        return [id for (id,) in server.execute(db, "SELECT id FROM rows")] if exists else []

    configs = {"connection.url": server.url(db), "auto.create": "true", **_MODES[mode]}
    check(SinkUnderTest(JdbcSinkConnector, configs, _row, read, lambda offset: _record(offset, "text")))


def _row(offset: int) -> SinkRecord:
    schema = struct({"id": schemas.INT32})
    return _record(offset, Struct(schema, {"id": offset}), schema)


def _record(offset: int, value: Any, schema: Schema | None = None, topic: str = "rows") -> SinkRecord:
    return SinkRecord(topic=topic, partition=0, offset=offset, value=value, value_schema=schema)


class Sink:
    """A task of the sink, to which rows with a key `id` are put."""

    def __init__(self, server: Postgres, db: str, **configs: str) -> None:
        given = {
            "connection.url": server.url(db), "auto.create": "true", "auto.evolve": "true", "insert.mode": "upsert",
            "pk.mode": "record_key", "delete.enabled": "true",
            **{name.replace("_", "."): value for name, value in configs.items()},
        }  # fmt: skip
        self.driver = SinkDriver(SinkUnderTest(JdbcSinkConnector, given, _row, list), {})
        self.next = self.driver.start()

    def put(self, *rows: tuple[int, Schema | None, dict[str, Any] | None]) -> None:
        """Put rows: key, schema, and values, None for a tombstone."""
        key = struct({"id": schemas.INT32})
        records = []
        for id, schema, values in rows:
            record = _record(self.next, None if values is None else Struct(schema, values), schema)  # type: ignore[arg-type]
            records.append(record.replace(key=Struct(key, {"id": id}), key_schema=key))
            self.next += 1
        self.driver.put(records)


def test_types_of_columns_that_the_sink_creates(server: Postgres, db: str) -> None:
    fields = {
        "id": schemas.INT32,
        "ts": semantic.MICRO_TIMESTAMP, "tz": semantic.ZONED_TIMESTAMP, "d": semantic.DATE, "t": semantic.MICRO_TIME,
        "u": semantic.UUID_TEXT, "j": semantic.JSON, "n": logical.decimal(2), "v": semantic.VARIABLE_SCALE_DECIMAL,
        "a": schemas.array(schemas.STRING.as_optional()), "i": semantic.MICRO_DURATION, "b": semantic.bits(3),
        "f": schemas.FLOAT32, "x": schemas.BYTES, "m": schemas.map_of(schemas.STRING, schemas.INT32),
    }  # fmt: skip
    schema = struct({name: each.as_optional(name != "id") for name, each in fields.items()})
    values = {
        "id": 1, "ts": 1_704_164_645_678_901, "tz": "2024-01-02T01:04:05.5Z", "d": 19782, "t": 11_045_123_456,
        "u": "00000000-0000-0000-0000-000000000001", "j": '{"a": 1.10}', "n": Decimal("12.50"),
        "v": semantic.variable_scale(Decimal("1.234")), "a": ["x", None, 'q"'], "i": 93_784_500_000, "b": b"\x06",
        "f": 1.5, "x": b"\x00\xff", "m": {"k": 1},
    }  # fmt: skip
    sink = Sink(server, db)
    sink.put(
        (1, schema, values), (2, schema, {"id": 2}), (3, schema, {**values, "id": 3, "ts": 9_223_372_036_825_200_000})
    )
    sink.driver.stop()
    kinds = "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'rows'::regclass"
    assert dict(server.execute(db, f"{kinds} AND attnum > 0")) == {
        "id": "integer", "ts": "timestamp without time zone", "tz": "timestamp with time zone", "d": "date",
        "t": "time without time zone", "u": "uuid", "j": "jsonb", "n": "numeric(38,2)", "v": "numeric", "a": "text[]",
        "i": "interval", "b": "bit(3)", "f": "real", "x": "bytea", "m": "jsonb",
    }  # fmt: skip
    texts = [row for (row,) in server.execute(db, "SELECT to_jsonb(rows)::text FROM rows WHERE id <> 3 ORDER BY id")]
    assert '"ts": "2024-01-02T03:04:05.678901"' in texts[0]
    assert '"j": {"a": 1.10}' in texts[0]
    assert '"a": ["x", null, "q\\""]' in texts[0]
    assert '"b": "110"' in texts[0]
    assert '"i": "1 day 02:03:04.5"' in texts[0] or '"i": "26:03:04.5"' in texts[0]
    assert server.execute(db, "SELECT count(*) FROM rows WHERE j IS NULL AND a IS NULL")[0][0] == 1
    assert server.execute(db, "SELECT ts = 'infinity' FROM rows WHERE id = 3")[0][0]


def test_a_value_that_was_not_sent_stays(server: Postgres, db: str) -> None:
    server.execute(db, "CREATE TABLE rows (id int PRIMARY KEY, n int, big text NOT NULL)")
    schema = struct({"id": schemas.INT32, "n": schemas.INT32, "big": schemas.STRING})
    sink = Sink(server, db)
    sink.put((1, schema, {"id": 1, "n": 0, "big": "long"}))
    sink.put((1, schema, {"id": 1, "n": 1, "big": "__debezium_unavailable_value"}))
    sink.driver.stop()
    assert server.execute(db, "SELECT n, big FROM rows") == [(1, "long")]


def test_updates_deletes_and_new_columns_in_one_batch(server: Postgres, db: str) -> None:
    one = struct({"id": schemas.INT32, "a": schemas.OPTIONAL_STRING})
    two = struct({"id": schemas.INT32, "a": schemas.OPTIONAL_STRING, "b": schemas.OPTIONAL_INT32})
    sink = Sink(server, db, exactly_once="true")
    sink.put(
        (1, one, {"id": 1, "a": "x"}), (2, one, {"id": 2, "a": "y"}), (1, None, None), (1, two, {"id": 1, "b": 5}),
        (2, two, {"id": 2, "a": "z", "b": 6}), (1, two, {"id": 1, "b": 7}),
    )  # fmt: skip
    sink.driver.stop()
    assert server.execute(db, "SELECT id, a, b FROM rows ORDER BY id") == [(1, None, 7), (2, "z", 6)]
    assert server.execute(db, "SELECT next_offset FROM odradek_connect_offsets") == [(6,)]


def test_an_unknown_outcome_of_a_commit_is_looked_up(server: Postgres, db: str) -> None:
    """The server goes away behind the commit: the same records come again, and are recognized."""
    schema = struct({"id": schemas.INT32})
    server.execute(db, "CREATE TABLE log (id int)")
    sink = Sink(server, db, exactly_once="true", insert_mode="insert", pk_mode="none", delete_enabled="false",
                table_name_format="log")  # fmt: skip
    sink.put((1, schema, {"id": 1}))
    task: Any = sink.driver.task
    begin = task._engine.begin

    class Lost:
        """A transaction whose commit arrives, and whose answer does not."""

        def __enter__(self) -> Any:
            self.inner = begin()
            return self.inner.__enter__()

        def __exit__(self, *error: Any) -> None:
            self.inner.__exit__(*error)
            task._engine.begin = begin
            raise sa.exc.OperationalError("COMMIT", {}, Exception("the server closed the connection"))

    task._engine.begin = Lost
    before = sink.next
    with pytest.raises(RetriableError):
        sink.put((2, schema, {"id": 2}))
    sink.next = before
    sink.put((2, schema, {"id": 2}), (3, schema, {"id": 3}))
    assert server.execute(db, "SELECT id FROM log ORDER BY id") == [(1,), (2,), (3,)]
    # Another task was faster: what it has written is left out.
    server.execute(db, "UPDATE odradek_connect_offsets SET next_offset = 100")
    with pytest.raises(RetriableError, match="another task"):
        sink.put((4, schema, {"id": 4}))
    sink.put((4, schema, {"id": 4}))
    assert server.execute(db, "SELECT count(*) FROM log") == [(3,)]
    sink.driver.stop()


# --- the whole way ----------------------------------------------------------------------------------------------------


def test_a_database_is_copied_over_snapshot_changes_and_new_columns(server: Postgres, db: str) -> None:
    target = server.database(f"{db}_copy")
    server.execute(db, TABLE, *(f"INSERT INTO items (id, name) VALUES ({n}, 'row {n}')" for n in range(30)))
    with embedded() as service, RunningCluster(service) as running:
        copying(running, (server, db), (server, target))
        until(lambda: copied(server, db, target), 60, "the snapshot")
        server.execute(
            db,
            "UPDATE items SET price = id / 4.0, doc = jsonb_build_object('id', id)",
            "UPDATE items SET changed = now(), tags = ARRAY[name]",
            "DELETE FROM items WHERE id % 3 = 0",
            "ALTER TABLE items ADD extra text",
            "UPDATE items SET extra = 'x' WHERE id % 2 = 0",
            "UPDATE items SET id = id + 100 WHERE id < 10",
            "INSERT INTO items (id, name, big) SELECT 1000, 'big', string_agg(md5(n::text), '') "
            "FROM generate_series(1, 500) n",
            "UPDATE items SET name = 'still big' WHERE id = 1000",
        )
        until(lambda: copied(server, db, target), 60, "the changes")
        before = len(running.read(f"{db}.public.items", 10_000, timeout_s=3))
        running.cluster.restart("capture", include_tasks=True, only_failed=False)
        running.wait_running("capture")
        server.execute(db, "INSERT INTO items (id, name) VALUES (2000, 'last')")
        until(lambda: copied(server, db, target), 60, "the last row")
        assert len(running.read(f"{db}.public.items", 10_000, timeout_s=3)) == before + 1
    server.drop(target)
