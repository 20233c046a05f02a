"""Transactional ids and what their transactions hold, at every write.

* an id's row is written on the version that was read; its producer epoch does not fall, nor the number that counts its
  transactions, which rises with each one's begin
* what is pending for an open transaction stays: it is not deleted, and no other batches are written in its place
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.engine.transactions.items import TransactionRow, decode_row
from odradek.format.item_keys import transaction_pk
from odradek.ports.table import Item, Key


class TransactionBook:
    """The rows as they stand.

    Args:
        problem: takes note of what is wrong.
    """

    def __init__(self, problem: Callable[[str], None]) -> None:
        self._problem = problem
        self._rows: dict[str, TransactionRow] = {}
        self._producers: set[int] = set()

    def is_transactional(self, producer_id: int) -> bool:
        """Return True if a transactional id has, or had, the producer id."""
        return producer_id in self._producers

    def row_stored(self, key: Key, new: Item | None) -> None:
        """A transactional id's row was written (new None: deleted)."""
        pk = transaction_pk(key.sk)
        before = self._rows.pop(pk, None)
        if new is None:
            return
        row = self._rows[pk] = decode_row(key.sk, new)
        self._producers.add(row.producer_id)
        if before is None:
            return
        if row.version != before.version + 1:
            self._problem(f"{pk}: version {row.version} follows {before.version}")
        if row.producer_id == before.producer_id and row.producer_epoch < before.producer_epoch:
            self._problem(f"{pk}: the producer epoch fell from {before.producer_epoch} to {row.producer_epoch}")
        begins = row.is_ongoing and not before.is_ongoing
        if row.number < before.number + begins:
            self._problem(f"{pk}: transaction {row.number} {'begins' if begins else 'comes'} after {before.number}")

    def pending_stored(self, key: Key, old: Item | None, new: Item | None) -> None:
        """A pending item was written (new None: deleted)."""
        number, item_kind, _ = key.sk.split("#", 2)
        row = self._rows.get(key.pk)
        if old is not None and new is not None and item_kind == "b":
            self._problem(f"{key.pk}: the pending batches {key.sk} were written twice")
        if new is None and old is not None and row is not None and row.is_ongoing and row.number == int(number):
            self._problem(f"{key.pk}: {key.sk} of the open transaction was deleted")
