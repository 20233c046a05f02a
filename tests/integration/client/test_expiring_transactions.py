"""The list of transactions while ids expire between the list and the descriptions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from odradek.aio import Admin, Producer
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.transactions import list_transactions

from tests.support.clients.in_process import Server


@pytest.mark.parametrize("expired", [["a"], ["m", "z"], [f"e{n:03}" for n in range(120)]])
async def test_an_id_that_expires_meanwhile_hides_no_other(expired: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    names = [f"tx-{n}" for n in range(5)]
    for name in names:
        async with Producer(transport=server.transport(), transactional_id=name) as producer:
            await producer.init_transactions()
    async with Admin(transport=server.transport()) as admin:
        listed = await admin.list_transactions()

        async def list_more(*arguments: Any, **options: Any) -> Any:
            return [*listed, *(replace(listed[0], transactional_id=name) for name in expired)]

        monkeypatch.setattr(admin, "list_transactions", list_more)
        assert [row.transactional_id for row in await list_transactions(admin, 0)] == names


async def test_an_error_that_is_no_expiry_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    async with Producer(transport=server.transport(), transactional_id="tx") as producer:
        await producer.init_transactions()
    async with Admin(transport=server.transport()) as admin:

        async def fail(names: Any) -> Any:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "try again")

        monkeypatch.setattr(admin, "describe_transactions", fail)
        with pytest.raises(KafkaError, match="try again"):
            await list_transactions(admin, 0)
