"""Capacity units of table calls, for backends that count them themselves (DynamoDB reports its own).

Rules (DynamoDB developer guide, "Read and write operations" and "Transactions"): a write is the larger of the item
before and after, in units of 1 KB rounded up, at least one. A refused condition costs as much as a write of the stored
item. Transactional writes and reads cost twice. A read is 4 KB per unit, half when eventually consistent; each item of
a batch is rounded separately, the items of a query's page together. A missing item costs one unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from odradek.adapters.expressions import State
from odradek.limits import TABLE_READ_UNIT_BYTES, TABLE_WRITE_UNIT_BYTES
from odradek.ports.meter import Usage

QUERY_PAGE_BYTES_MAX = 1024 * 1024
BATCH_GET_KEYS_MAX = 100


def write_units(*sizes: int) -> int:
    """Return the units of one write; `sizes` are the item's bytes before and after (0 or omitted: no item)."""
    return max(1, -(-max(sizes, default=0) // TABLE_WRITE_UNIT_BYTES))


def read_units(size: int, *, consistent: bool) -> float:
    """Return the units of one read of that many bytes."""
    units = max(1, -(-size // TABLE_READ_UNIT_BYTES))
    return float(units) if consistent else units / 2


def write_usage(*sizes: int) -> Usage:
    """Return the usage of one single-item write."""
    return _written(write_units(*sizes))


def get_usage(size: int, *, consistent: bool) -> Usage:
    """Return the usage of one GetItem."""
    return _read(read_units(size, consistent=consistent))


@lru_cache(maxsize=1024)
def _written(units: float) -> Usage:
    return Usage(table_write_units=units, table_requests=1)


@lru_cache(maxsize=1024)
def _read(units: float) -> Usage:
    return Usage(table_read_units=units, table_requests=1)


def get_many_usage(sizes: list[int], *, consistent: bool) -> Usage:
    """Return the usage of the BatchGetItem calls for items of these sizes."""
    units = sum(read_units(size, consistent=consistent) for size in sizes)
    return Usage(table_read_units=units, table_requests=-(-len(sizes) // BATCH_GET_KEYS_MAX))


def transact_get_usage(sizes: Iterable[int]) -> Usage:
    """Return the usage of one TransactGetItems for items of these sizes."""
    units = sum(2 * read_units(size, consistent=True) for size in sizes)
    return Usage(table_read_units=units, table_requests=1)


def query_usage(sizes: Iterable[int], *, consistent: bool) -> Usage:
    """Return the usage of the Query pages that return items of these sizes."""
    units, requests, page = 0.0, 1, 0
    for size in sizes:
        if page and page + size > QUERY_PAGE_BYTES_MAX:
            units += read_units(page, consistent=consistent)
            requests, page = requests + 1, 0
        page += size
    return Usage(table_read_units=units + read_units(page, consistent=consistent), table_requests=requests)


def transact_usage(olds: Sequence[State], news: Sequence[State]) -> Usage:
    """Return the usage of one TransactWriteItems; the states before and after, unchanged if it was refused."""
    units = sum(write_units(old.size_bytes, new.size_bytes) for old, new in zip(olds, news, strict=True))
    return Usage(table_write_units=2 * units, table_requests=1)
