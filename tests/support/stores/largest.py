"""Initial items of the largest operations, put into the tables directly: calls would take minutes."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from odradek.adapters.aws import DynamoTable
from odradek.engine.engine import Engine
from odradek.engine.partition.head import PartitionHead, encode_head, head_key
from odradek.format.item_keys import TOPICS_PK
from odradek.limits import TABLE_TRANSACTION_ITEMS_MAX, TOPIC_NAME_LENGTH_MAX
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Item, Key, Operation, Put, Set, Table, Update

from tests.support.stores.aws import DYNAMODB

ID = "é" * 450  # of a group, a member, a transaction: 900 bytes


def name_of(number: int) -> str:
    """A topic's name of the largest length."""
    return f"{uuid.uuid4().hex}-{number:04d}".ljust(TOPIC_NAME_LENGTH_MAX, "x")


def long_id(number: int) -> str:
    """An id of the largest length, in the order of the numbers."""
    return f"{number:04d}{ID[2:]}"


def plays_moto(engine: Engine) -> bool:
    """Return True if moto plays DynamoDB."""
    return DYNAMODB is None and isinstance(engine.index._log, DynamoTable)


async def topic_of(engine: Engine, partitions: int = 1, heads: int = 0) -> Topic:
    """A topic with the longest name; only the first `heads` partitions, or one, can be written to."""
    name = name_of(0)
    topic = await engine.topics.create(name, 1)
    await put_all(
        engine.index._log,
        [(head_key(PartitionId(topic.topic_id, number)), encode_head(PartitionHead())) for number in range(1, heads)],
    )
    await engine.catalog.update(Update(Key(TOPICS_PK, name), (Set(("n",), partitions),)))
    engine.topics.forget(topic)
    return await engine.topics.resolve(name)


async def put_all(table: Table, items: Sequence[tuple[Key, Item]]) -> None:
    """Write items as many at a time as a transaction takes."""
    operations: list[Operation] = [Put(key, item) for key, item in items]
    for start in range(0, len(operations), TABLE_TRANSACTION_ITEMS_MAX):
        await table.transact(operations[start : start + TABLE_TRANSACTION_ITEMS_MAX])
