"""Quotas of users and client ids: what one administrator sets, another at the same time does not undo."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.engine.access.client_quotas import ClientQuotas
from odradek.errors import ErrorCode, KafkaError
from odradek.model.quota import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, QuotaEntity
from odradek.testing.faults import Fault

from tests.support.engine import Store, memory_store

ANN = QuotaEntity(user="ann")


def quotas_of(store: Store) -> tuple[ClientQuotas, Any]:
    return store.engine().client_quotas, store.tables.catalog


@pytest.mark.parametrize("first", [{}, {PRODUCER_BYTE_RATE: 1.0}], ids=["the first quota", "another value"])
async def test_two_administrators_at_once(first: dict[str, float]) -> None:
    store = memory_store()
    ours, catalog = quotas_of(store)
    theirs = store.engine(1).client_quotas
    if first:
        await ours.alter(ANN, first)
    get = catalog.get

    async def overtaken(key: Any, **options: Any) -> Any:
        item = await get(key, **options)
        catalog.get = get
        await theirs.alter(ANN, {CONSUMER_BYTE_RATE: 7.0})
        return item

    catalog.get = overtaken
    await ours.alter(ANN, {PRODUCER_BYTE_RATE: 5.0})
    assert await ours.list() == {ANN: {PRODUCER_BYTE_RATE: 5, CONSUMER_BYTE_RATE: 7}}


async def test_the_last_value_removed_while_another_is_set() -> None:
    store = memory_store()
    ours, catalog = quotas_of(store)
    theirs = store.engine(1).client_quotas
    await ours.alter(ANN, {PRODUCER_BYTE_RATE: 5.0})
    delete = catalog.delete

    async def overtaken(action: Any) -> None:
        catalog.delete = delete
        await theirs.alter(ANN, {CONSUMER_BYTE_RATE: 7.0})
        await delete(action)

    catalog.delete = overtaken
    await ours.alter(ANN, {PRODUCER_BYTE_RATE: None})
    assert await ours.list() == {ANN: {CONSUMER_BYTE_RATE: 7}}


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LOST_REQUEST, Fault.LOST_ANSWER, Fault.REPEATED])
async def test_a_fault_of_the_store_loses_nothing(fault: Fault) -> None:
    store = memory_store()
    ours, catalog = quotas_of(store)
    catalog.script["put", catalog.count("put") + 1] = fault
    await ours.alter(ANN, {PRODUCER_BYTE_RATE: 5.0})
    assert await ours.list() == {ANN: {PRODUCER_BYTE_RATE: 5}}


async def test_a_quota_that_is_not_enforced_is_refused() -> None:
    ours, _ = quotas_of(memory_store())
    with pytest.raises(KafkaError) as raised:
        await ours.alter(ANN, {"request_rate": 5.0})
    assert raised.value.code is ErrorCode.INVALID_REQUEST
