"""A table of items with conditional writes: a subset of DynamoDB that SQLite and a dict can implement.

The three tables (log, groups, catalog) are instances of this port, so every rule about *what* may be written is in the
engine, once, as data: a condition and a list of actions. An adapter only evaluates them atomically (memory, SQLite) or
translates them into an UpdateItem (DynamoDB). See docs/decisions/0001-one-table-port.md.

Semantics are DynamoDB's:

* An item is addressed by (`pk`, `sk`); attributes are str, int (38 digits), bytes, bool, list or dict of these.
* Every write of one item is atomic and sees the item's state before it: all actions of one update read the old values.
* A comparison or `Contains` on a missing path is false; `Not` of it is true.
* A missing item satisfies `Absent(("anything",))`. An update of a missing item creates it (if the condition holds).
* Reads are strongly consistent unless `consistent=False`.
* A transaction is applied as a whole, but its items become visible one by one: while it is being applied, several
  reads, `get_many` and `query` may see some items before and others after it. Only `transact_get` reads several items
  at one moment; docs/decisions/0010 says which readers need that.
* A write of an item that a transaction is being applied to is refused (StoreUnavailable).
* Returned values may be the store's own, which others get as well: nobody changes them. Values that are given to the
  store belong to the caller again when the call has ended.
* An update that knows its own outcome (`LiveUpdate`) is decided by itself where the store has the item in memory.

A bug of the caller is a ValueError in every backend: an attribute of another type (float, None, tuple), two actions of
one update on overlapping paths, an update that changes nothing, an attribute called `pk` or `sk` (conditions may refer
to them). StoreRejected, in every backend and whatever the condition, is a request that one of DynamoDB's limits or the
stored item refuses: a key part that is empty or too long, an expression of more than 4,096 bytes or 300 operators, a
number of more than 38 digits, deep nesting (adapters/validation.py); a document path without its parent map, a number
added or a list appended to another type, a copy of a missing value. An update with only removals may or may not create
a missing item: give it a condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

Value = str | int | bytes | bool | list["Value"] | dict[str, "Value"]
Item = dict[str, Value]
Path = tuple[str, ...]


class KeptItem(dict[str, Value]):
    """An item that a store keeps in memory until it is written again.

    Attributes:
        size_bytes: with its key, by DynamoDB's rules.
        image: what a reader decoded from it, for the next one; None: nobody has.
    """

    __slots__ = ("image", "size_bytes")

    def __init__(self, item: Item, size_bytes: int) -> None:
        super().__init__(item)
        self.size_bytes = size_bytes
        self.image: Any = None


class Key(NamedTuple):
    """The primary key of an item."""

    pk: str
    sk: str


# --- conditions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exists:
    """True if the path exists."""

    path: Path


@dataclass(frozen=True, slots=True)
class Absent:
    """True if the path does not exist."""

    path: Path


@dataclass(frozen=True, slots=True)
class Compare:
    """`path op value`; false if the path does not exist or has another type. Maps are only equal, or not."""

    path: Path
    op: Literal["=", "<>", "<", "<=", ">", ">="]
    value: str | int | bytes | bool | dict[str, Value]


@dataclass(frozen=True, slots=True)
class Contains:
    """True if the list at the path has an element equal to the value."""

    path: Path
    value: str | int | bytes


@dataclass(frozen=True, slots=True)
class Not:
    condition: Condition


@dataclass(frozen=True, slots=True)
class AllOf:
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    conditions: tuple[Condition, ...]


Condition = Exists | Absent | Compare | Contains | Not | AllOf | AnyOf


def all_of(*conditions: Condition) -> Condition:
    """Return the conjunction of the conditions; a single one is returned as it is."""
    return conditions[0] if len(conditions) == 1 else AllOf(conditions)


# --- actions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Set:
    """Set the path to the value. All but the last step of the path must exist (DynamoDB's rule)."""

    path: Path
    value: Value


@dataclass(frozen=True, slots=True)
class Copy:
    """Set the path to the value that `from_path` had before this update; it must exist."""

    path: Path
    from_path: Path


@dataclass(frozen=True, slots=True)
class Add:
    """Add to the number at the path; a missing number counts as 0."""

    path: Path
    amount: int


@dataclass(frozen=True, slots=True)
class Append:
    """Append the values to the list at the path, which must exist."""

    path: Path
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class RemoveFirst:
    """Remove the first `count` elements of the list at the path."""

    path: Path
    count: int


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove the attribute at the path, if it exists."""

    path: Path


Action = Set | Copy | Add | Append | RemoveFirst | Remove


# --- operations ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Update:
    key: Key
    actions: tuple[Action, ...]
    condition: Condition | None = None


class Undecided(Exception):
    """A live update cannot tell what its expressions would do to this item."""


class LiveUpdate(Update):
    """An update of an item that many requests change, which is also a decision on the item itself.

    Its condition and its actions are the definition. A store that evaluates expressions itself asks `decide` instead,
    which does the same without them.
    """

    def decide(self, item: Item | None) -> Item | None:
        """Return the item after the update, or None if the condition is false. Leaves `item` as it is.

        Raises Undecided: evaluate the expressions.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Put:
    """Write the whole item."""

    key: Key
    item: Item
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    key: Key
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing; the transaction is refused if the condition is false."""

    key: Key
    condition: Condition


Operation = Update | Put | Delete | Check


class Row(NamedTuple):
    """A row of a query's result."""

    key: Key
    item: Item


class Table(Protocol):
    """A table of items with conditional writes."""

    async def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        """Return the item, or None. Raises StoreUnavailable, StoreRejected (an impossible key)."""
        ...

    async def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> list[Item | None]:
        """Return the items in the order of the keys (any number of keys). Raises StoreUnavailable."""
        ...

    async def transact_get(self, keys: Sequence[Key]) -> list[Item | None]:
        """Return items at one moment, in the order of the keys: 1 to 25, all different. Costs two reads per item.

        If one item shows that a transaction has been applied, all of them do.

        Raises:
            TransactionConflict: a transaction over one of the items is being applied.
            StoreUnavailable: no answer.
            ValueError: no keys, more than 25, or a repeated one (a bug of the caller).
        """
        ...

    async def query(
        self,
        pk: str,
        *,
        sk_from: str = "",
        sk_to: str | None = None,
        descending: bool = False,
        limit: int | None = None,
        consistent: bool = True,
    ) -> list[Row]:
        """Return rows of one `pk` with `sk_from <= sk < sk_to` (None: no end) in the order of `sk`, at most `limit`.

        `descending` reads the same half-open range backwards. Pages are joined. Raises StoreUnavailable.
        """
        ...

    async def update(self, update: Update) -> Item:
        """Apply an update and return the new image.

        Raises:
            ConditionFailed: refused; carries the stored item.
            ItemTooLarge: the item would have more than 400 KB; not applied.
            StoreRejected: a limit refuses it, now and always; not applied.
            StoreUnavailable: certainly not applied.
            OutcomeUnknown: may have been applied.
        """
        ...

    async def put(self, put: Put) -> None:
        """Write a whole item. Raises as `update`."""
        ...

    async def delete(self, delete: Delete) -> None:
        """Delete an item; a missing one is ignored. Raises as `update`."""
        ...

    async def transact(self, operations: Sequence[Operation]) -> None:
        """Apply all operations or none; at most 100, no two on one key.

        Raises:
            TransactionCanceled: refused as a whole; carries the conditions that failed.
            ItemTooLarge: an item would have more than 400 KB, or all of them more than 4 MB; nothing was applied.
            StoreRejected: a limit refuses it, now and always; nothing was applied.
            StoreUnavailable: certainly not applied (contention included).
            OutcomeUnknown: may have been applied.
            ValueError: more than 100 operations, or two on one key (a bug of the caller).
        """
        ...
