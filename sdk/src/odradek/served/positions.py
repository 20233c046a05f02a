"""How far a table follows a partition: one item, which fences those who write rows (docs/decisions/0050).

rows    <generation>    <partition, 6 digits>
        {v: 1, e: epoch, o: covered, u: busy until ms, c: changes, z: too large, k: unusable, l: lost,
         t: newest record time, r: error, m: its time}

    take      e + 1, on condition that e is what was read     the former owner can neither add a row nor advance
    advance   o and the counters, on condition that e is ours

`u` is courtesy, not safety: while it is in the future, another maintainer leaves the partition alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import ConditionFailed, OutcomeUnknown, StoreUnavailable
from odradek.ports.table import Absent, Check, Compare, Condition, Item, Key, Put, Set, Table, Update

VERSION = 1
BUSY_MS = 20_000
_ATTEMPTS = 5
_ERROR_CHARACTERS = 300


class Fenced(Exception):
    """Another maintainer has taken the partition, or the table was dropped."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a table follows a partition; epoch 0: nobody has begun."""

    partition: int
    covered: int = 0
    epoch: int = 0
    busy_until_ms: int = 0
    changes: int = 0
    too_large: int = 0
    unusable: int = 0
    lost: int = 0
    timestamp_ms: int = 0
    error: str = ""
    error_ms: int = 0


def position_key(generation: str, partition: int) -> Key:
    """The key of a partition's position."""
    return Key(generation, f"{partition:06d}")


class Positions:
    """The positions in the rows table.

    Args:
        rows: the table.
    """

    def __init__(self, rows: Table) -> None:
        self._rows = rows

    async def read(self, generation: str, partitions: Sequence[int]) -> list[Position]:
        """The positions of some partitions. Raises StoreUnavailable, FormatError."""
        items = await self._rows.get_many([position_key(generation, partition) for partition in partitions])
        return [decode(number, item) for number, item in zip(partitions, items, strict=True)]

    async def read_all(self, generation: str) -> dict[int, Position]:
        """The positions of all partitions that were begun: one Query. Raises StoreUnavailable, FormatError."""
        return {int(key.sk): decode(int(key.sk), item) for key, item in await self._rows.query(generation)}

    async def take(self, generation: str, position: Position, now_ms: int) -> Position | None:
        """Become the one who writes; None: another did. Raises StoreUnavailable, OutcomeUnknown."""
        key, busy_until_ms = position_key(generation, position.partition), now_ms + BUSY_MS
        taken = replace(position, epoch=position.epoch + 1, busy_until_ms=busy_until_ms)
        try:
            if position.epoch == 0:
                await self._rows.put(Put(key, encode(taken), Absent(("v",))))
            else:
                actions = (Set(("e",), taken.epoch), Set(("u",), busy_until_ms))
                await self._rows.update(Update(key, actions, Compare(("e",), "=", position.epoch)))
        except ConditionFailed:
            return None
        return taken

    async def advance(self, generation: str, position: Position) -> None:
        """Store a position that is ours. Raises Fenced, StoreUnavailable."""
        put = Put(position_key(generation, position.partition), encode(position), _is_ours(position))
        for _ in range(_ATTEMPTS):
            try:
                await self._rows.put(put)
                return
            except ConditionFailed:
                raise Fenced from None
            except OutcomeUnknown:
                continue
        raise StoreUnavailable("the table of rows does not answer")


def is_ours(generation: str, position: Position) -> Check:
    """The check that a transaction with new rows contains: nobody has taken the partition since."""
    return Check(position_key(generation, position.partition), _is_ours(position))


def _is_ours(position: Position) -> Condition:
    return Compare(("e",), "=", position.epoch)


def encode(position: Position) -> Item:
    """The item of a position, without its key."""
    item: Item = {
        "v": VERSION,
        "e": position.epoch,
        "o": position.covered,
        "u": position.busy_until_ms,
        "c": position.changes,
        "z": position.too_large,
        "k": position.unusable,
        "l": position.lost,
        "t": position.timestamp_ms,
    }
    if position.error:
        item |= {"r": position.error[:_ERROR_CHARACTERS], "m": position.error_ms}
    return item


def decode(partition: int, item: Item | None) -> Position:
    """The position of an item; None: nobody has begun. Raises FormatError."""
    if item is None:
        return Position(partition)
    check_version(item, VERSION, "the position of a served table")
    covered, epoch, busy, changes, large, unusable, lost, time = (attribute(item, name, int) for name in "oeuczklt")
    error = attribute(item, "r", str) if "r" in item else ""
    return Position(
        partition,
        covered,
        epoch,
        busy,
        changes,
        large,
        unusable,
        lost,
        time,
        error,
        attribute(item, "m", int) if error else 0,
    )
