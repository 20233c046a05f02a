"""The contract of ports.table.Table and ports.tables.Tables: what every backend must do, as functions to run over it.

    TABLE_CHECKS    async def check(table, pk): one table; writes only under partition keys that begin with `pk`
    TABLES_CHECKS   async def check(tables, pk): the three tables of a store and transactions across them

Run them one by one from a test framework (tests/contract does), or all at once with `check_table` and `check_tables`.
A check raises AssertionError where the backend breaks the contract. The checks are in five files by subject.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from odradek.ports.table import Table
from odradek.ports.tables import Tables
from odradek.testing import (
    contract_table_conditions,
    contract_table_limits,
    contract_table_reads,
    contract_table_writes,
    contract_tables,
)

TableCheck = Callable[[Table, str], Awaitable[None]]
TablesCheck = Callable[[Tables, str], Awaitable[None]]

TABLE_CHECKS: tuple[TableCheck, ...] = (
    *contract_table_conditions.CHECKS,
    *contract_table_writes.CHECKS,
    *contract_table_reads.CHECKS,
    *contract_table_limits.CHECKS,
)
TABLES_CHECKS: tuple[TablesCheck, ...] = contract_tables.CHECKS


async def check_table(make: Callable[[], AbstractAsyncContextManager[Table]]) -> None:
    """Run every check of one table over a table that `make` opens."""
    async with make() as table:
        for number, check in enumerate(TABLE_CHECKS):
            await check(table, f"contract-{number}")


async def check_tables(make: Callable[[], AbstractAsyncContextManager[Tables]]) -> None:
    """Run every check of a store's tables over those that `make` opens."""
    async with make() as tables:
        for number, check in enumerate(TABLES_CHECKS):
            await check(tables, f"contract-{number}")
