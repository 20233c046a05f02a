"""The emulator itself refuses what validation.py refuses before it: the limits are not only ours."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from odradek.adapters.aws import AwsStore
from odradek.adapters.aws import table as aws_table
from odradek.errors import ItemTooLarge, StoreRejected
from odradek.limits import TABLE_NESTING_MAX
from odradek.ports.table import AllOf, Compare, Key, Put, RemoveFirst, Set, Update, Value

from tests.support.stores.aws import CREDENTIALS, create_tables, moto_server, open_store


@pytest.fixture(scope="module")
def store() -> Iterator[AwsStore]:
    with pytest.MonkeyPatch.context() as patch, moto_server() as endpoint:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        patch.setattr(aws_table, "check_operation", lambda operation: None)
        patch.setattr(aws_table, "check_key", lambda key: None)
        store = open_store(endpoint, create_tables(endpoint))
        yield store
        asyncio.run(store.aclose())


def nested(levels: int) -> Value:
    value: Value = 1
    for _ in range(levels):
        value = [value]
    return value


# dynoxide 3.2 does not hold to 300 operators, 2 MB behind placeholders and 64 KB of a name, which DynamoDB documents.
KEY = Key(uuid.uuid4().hex, "item")
REJECTED = {
    "an update's text": Update(KEY, (RemoveFirst(("t",), 500),)),
    "a condition's text": Put(KEY, {}, AllOf(tuple(Compare(("p", str(n), "e"), "=", n) for n in range(300)))),
    "a partition key": Put(Key("x" * 2049, "a"), {}),
    "a sort key": Put(Key("x", "a" * 1025), {}),
    "an empty key": Put(Key("x", ""), {}),
    "a number": Put(KEY, {"n": 10**38 + 1}),
    "a nested value": Put(KEY, {"n": nested(TABLE_NESTING_MAX + 1)}),
    "a path without its parent": Update(KEY, (Set(("nothing", "x"), 1),)),
    "overlapping paths": Update(KEY, (Set(("a",), {}), Set(("a", "b"), 2))),
}


@pytest.mark.parametrize("operation", REJECTED.values(), ids=REJECTED)
async def test_the_emulator_rejects(operation: Update | Put, store: AwsStore) -> None:
    await store.log.put(Put(KEY, {"t": [1] * 600, "n": 1}))
    before = await store.log.get(KEY)
    with pytest.raises(StoreRejected):
        await (store.log.update(operation) if isinstance(operation, Update) else store.log.put(operation))
    assert await store.log.get(KEY) == before


async def test_the_emulator_counts_an_item_s_bytes(store: AwsStore) -> None:
    with pytest.raises(ItemTooLarge):
        await store.log.put(Put(KEY, {"d": bytes(400 * 1024)}))
