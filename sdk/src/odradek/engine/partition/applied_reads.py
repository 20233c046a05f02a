"""Reads of items as they are after every transaction that has been applied, in chunks (docs/decisions/0010).

Each chunk shows one moment; the chunks together only show a state after everything that the caller has seen before the
call. The callers need that: another item has shown them that a transaction was applied, and they must see its effect on
these items too.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.limits import TRANSACT_GET_KEYS_MAX
from odradek.ports.table import Item, Key, Table


def chunked(keys: Sequence[Key]) -> list[Sequence[Key]]:
    """The keys, as many at a time as one transactional read takes."""
    return [keys[at : at + TRANSACT_GET_KEYS_MAX] for at in range(0, len(keys), TRANSACT_GET_KEYS_MAX)]


async def transact_get_all(table: Table, keys: Sequence[Key]) -> list[Item | None]:
    """The items in the order of the keys, no two alike. Raises TransactionConflict, StoreUnavailable: ask again."""
    return [item for chunk in chunked(keys) for item in await table.transact_get(chunk)]
