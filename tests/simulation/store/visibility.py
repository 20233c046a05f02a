"""The view of reads of a store whose transactions take time, as DynamoDB's do (docs/decisions/0010).

A transaction is applied at one moment, and the ledger sees it then. But its items become visible one after the other,
each at a time of its own, before the transaction is answered:

* until then a read of the item shows it as before: `get`, and each item of `get_many` and `query`
* a write of it is refused, and so is a transaction that has it, and a transactional read: TransactionConflict
* an item that is only checked is held in the same way

A read that is not `consistent` may besides show an item as it was some time ago.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from random import Random
from typing import Any

from odradek.adapters.expressions import copied
from odradek.errors import TransactionConflict
from odradek.ports.table import Item, Key, Row
from odradek.ports.tables import TableName

_STALE_S = 5.0
_HELD_S = (0.01, 0.05, 0.5, 4.0)  # the longest: a coordinator failed, and another one finishes its transaction
_LAGS_S = (0.0, 0.0, 0.3, _STALE_S)

Images = dict[str, Item | None]


class Visibility:
    """The items of a store that are not seen as they are.

    Args:
        rng: decides how long what is held.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._held: dict[tuple[TableName, str], dict[str, tuple[float, Item | None]]] = {}
        self._changes: deque[tuple[float, TableName, Key, Item | None]] = deque()
        self.all_visible_s = 0.0

    def changed(self, table: TableName, key: Key, old: Item | None) -> None:
        """An item was written: stale reads may still see the old one for a while."""
        now_s = _now_s()
        self._changes.append((now_s, table, key, old))
        while self._changes[0][0] < now_s - _STALE_S:
            self._changes.popleft()

    def hold(self, images: Iterable[tuple[TableName, Key, Item | None]]) -> float:
        """A transaction over these items has been applied; the images are from before it.

        Returns when the last of them becomes visible, as the loop's time, s.
        """
        last_s = 0.0
        for table, key, image in images:
            until_s = _now_s() + self._rng.random() * self._rng.choice(_HELD_S)
            last_s = max(last_s, until_s)
            self._held.setdefault((table, key.pk), {})[key.sk] = (until_s, image)
        self.all_visible_s = max(self.all_visible_s, last_s)
        return last_s

    def check(self, table: TableName, keys: Iterable[Key]) -> None:
        """Raises TransactionConflict where a transaction is being applied to one of the items."""
        for key in keys:
            if key.sk in self._images(table, key.pk):
                raise TransactionConflict(f"{table} {key.pk} {key.sk}: a transaction is being applied")

    def is_whole(self, table: TableName, pk: str, *, consistent: bool) -> bool:
        """Return True if everything under the `pk` is seen as it is."""
        return consistent and not self._images(table, pk)

    def seen(self, table: TableName, pk: str, *, consistent: bool) -> Images:
        """The items of a `pk` that this read sees otherwise than they are."""
        images = self._images(table, pk)
        if not consistent:
            since_s = _now_s() - self._rng.choice(_LAGS_S)
            older: Images = {}
            for at_s, where, key, old in self._changes:
                if at_s >= since_s and where == table and key.pk == pk:
                    older.setdefault(key.sk, old)
            images |= older
        return images

    def _images(self, table: TableName, pk: str) -> Images:
        held = self._held.get((table, pk))
        if not held:
            return {}
        now_s = _now_s()
        for sk in [sk for sk, (until_s, _) in held.items() if until_s <= now_s]:
            del held[sk]
        return {sk: image for sk, (_, image) in held.items()}


def overlaid(rows: Iterable[Row], images: Images, pk: str, bounds: dict[str, Any]) -> list[Row]:
    """The rows of a query as seen: some are as they were, some not there yet, some not gone yet."""
    items = {row.key.sk: row.item for row in rows}
    sk_from, sk_to = bounds.get("sk_from", ""), bounds.get("sk_to")
    for sk, image in images.items():
        if sk < sk_from or (sk_to is not None and sk >= sk_to):
            continue
        if image is None:
            items.pop(sk, None)
        else:
            items[sk] = copied(image)
    order = sorted(items, reverse=bounds.get("descending", False))
    return [Row(Key(pk, sk), items[sk]) for sk in order[: bounds.get("limit")]]


def _now_s() -> float:
    return asyncio.get_running_loop().time()
