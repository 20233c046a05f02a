"""The contracts of the ports over the memory adapters."""

from __future__ import annotations

import pytest
from odradek.adapters.memory import MemoryObjectStore, MemoryStore, MemoryTable, MemoryTaskQueue
from odradek.testing import ManualClock
from odradek.testing.contract import check_id
from odradek.testing.contract_object_store import OBJECT_STORE_CHECKS, ObjectStoreCheck
from odradek.testing.contract_table import TABLE_CHECKS, TABLES_CHECKS, TableCheck, TablesCheck
from odradek.testing.contract_task_queue import TASK_QUEUE_CHECKS, TaskQueueCheck


@pytest.mark.parametrize("check", TABLE_CHECKS, ids=check_id)
async def test_table(check: TableCheck) -> None:
    await check(MemoryTable(), "pk")


@pytest.mark.parametrize("check", TABLES_CHECKS, ids=check_id)
async def test_tables(check: TablesCheck) -> None:
    await check(MemoryStore(), "pk")


@pytest.mark.parametrize("check", OBJECT_STORE_CHECKS, ids=check_id)
async def test_object_store(check: ObjectStoreCheck) -> None:
    await check(MemoryObjectStore(ManualClock()), "pk/")


@pytest.mark.parametrize("check", TASK_QUEUE_CHECKS, ids=check_id)
async def test_task_queue(check: TaskQueueCheck) -> None:
    await check(MemoryTaskQueue())
