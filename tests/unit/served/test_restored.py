"""A deployment that is restored: its served tables begin anew, since their rows may be of records that are no more."""

from __future__ import annotations

from typing import Any

from odradek.adapters.aws.attribute_values import from_item, to_item
from odradek.adapters.aws.restore import renew_served_tables
from odradek.ports.table import Key, Put

from tests.support.services.served import Served


class Catalog:
    """The calls of a DynamoDB client, over the catalog in memory."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self.puts: list[tuple[Key, Any]] = []

    def get_paginator(self, name: str) -> Catalog:
        assert name == "query"
        return self

    def paginate(self, *, ExpressionAttributeValues: Any, **_: Any) -> list[dict[str, Any]]:
        pk = ExpressionAttributeValues[":pk"]["S"]
        rows = self._served.store.catalog._partitions.get(pk, {})
        return [{"Items": [to_item(Key(pk, sk), state.item or {}) for sk, state in rows.items()]}]

    def put_item(self, *, Item: Any, **_: Any) -> None:
        self.puts.append(from_item(Item))


async def test_a_restored_table_is_read_from_the_log_anew() -> None:
    served = Served()
    await served.topic()
    await served.put((b"a", b"1"))
    await served.serve()
    await served.work()
    before = await served.parts.reader.table("scores")
    catalog = Catalog(served)
    assert renew_served_tables(catalog, "catalog", now_ms=served.clock.now_ms()) == 1
    for key, item in catalog.puts:
        await served.store.catalog.put(Put(key, item))
    parts = served.process()
    after = await parts.reader.table("scores")
    assert after.generation != before.generation
    assert (after.table, after.topic_id) == (before.table, before.topic_id)
    await parts.sweep.run()
    await served.work(parts)
    assert await served.value("a") == 1
    assert {pk.partition("#")[0] for pk in served.store.rows._partitions} == {after.generation}
