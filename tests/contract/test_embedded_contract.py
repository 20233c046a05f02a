"""The contracts of the ports over SQLite and files."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.adapters.embedded import FileObjectStore, open_embedded
from odradek.testing.contract import check_id
from odradek.testing.contract_object_store import OBJECT_STORE_CHECKS, ObjectStoreCheck
from odradek.testing.contract_table import TABLE_CHECKS, TABLES_CHECKS, TableCheck, TablesCheck


@pytest.mark.parametrize("check", TABLE_CHECKS, ids=check_id)
async def test_table(check: TableCheck, tmp_path: Path) -> None:
    async with open_embedded(tmp_path) as store:
        await check(store.log, "pk")


@pytest.mark.parametrize("check", TABLES_CHECKS, ids=check_id)
async def test_tables(check: TablesCheck, tmp_path: Path) -> None:
    async with open_embedded(tmp_path) as store:
        await check(store, "pk")


@pytest.mark.parametrize("check", OBJECT_STORE_CHECKS, ids=check_id)
async def test_object_store(check: ObjectStoreCheck, tmp_path: Path) -> None:
    store = FileObjectStore(tmp_path)
    try:
        await check(store, "pk/")
    finally:
        await store.aclose()
