"""The sweep's floor and its progress: one item of the catalog.

Key: `sweep`, `floor`. Lifetime: made by the first sweep, never removed.

    v   format version 1
    f   floor, object id: no append below it will be accepted by any head, once every head has it; only rises
    t   when a sweep last ran to its end, ms
    n   WAL items of all hours (since 1970) before this one have been looked at
    h   those of these hours in which items were still needed
    ver raised by every note of progress: of two sweeps at once the second one's note is dropped

`f` may rise while `t`, `n` and `h` stand: a sweep that dies is followed by one that looks at everything again.

A process that makes a partition visible first gives its head the floor, and its transaction checks that the floor has
not changed (`unchanged`). So either a sweep that has raised the floor finds the partition when it lists them all, or
the partition's head has the floor from the start.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.engine.partition.fields import attribute, check_version, is_version_or_absent
from odradek.engine.partition.head import NO_FLOOR
from odradek.errors import ConditionFailed, FormatError, OutcomeUnknown
from odradek.format.item_keys import SWEEP_FLOOR_SK, SWEEP_PK
from odradek.ports.table import Absent, AnyOf, Check, Compare, Item, Key, Set, Table, Update, all_of

VERSION = 1
SWEEP_FLOOR_KEY = Key(SWEEP_PK, SWEEP_FLOOR_SK)
_RAISE_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class SweepState:
    """The item as it was read; the default stands for a store that was never swept.

    Attributes:
        next_hour: None before the first complete sweep.
    """

    floor: bytes = NO_FLOOR
    swept_ms: int = 0
    next_hour: int | None = None
    hours_left: tuple[int, ...] = ()
    version: int = 0

    @property
    def unchanged(self) -> Check:
        """The clause of a transaction that is applied only while the floor is this one."""
        at_rest = Absent(("f",)) if self.floor == NO_FLOOR else Compare(("f",), "=", self.floor)
        return Check(SWEEP_FLOOR_KEY, at_rest)


async def read_sweep_state(catalog: Table) -> SweepState:
    """The state by a consistent read. Raises StoreUnavailable, FormatError."""
    item = await catalog.get(SWEEP_FLOOR_KEY)
    return SweepState() if item is None else _decode(item)


async def raise_sweep_floor(catalog: Table, floor: bytes) -> None:
    """Raise the floor; one that is as high already stays. Raises StoreUnavailable, OutcomeUnknown: raise it again."""
    update = Update(
        SWEEP_FLOOR_KEY,
        (Set(("v",), VERSION), Set(("f",), floor)),
        all_of(is_version_or_absent(VERSION), AnyOf((Absent(("f",)), Compare(("f",), "<", floor)))),
    )
    for attempt in range(1, _RAISE_ATTEMPTS + 1):
        try:
            await catalog.update(update)
            return
        except ConditionFailed as refused:
            if refused.current is not None:
                check_version(refused.current, VERSION, "the sweep's floor")
            return
        except OutcomeUnknown:
            if attempt == _RAISE_ATTEMPTS:
                raise


async def note_sweep(catalog: Table, before: SweepState, swept_ms: int, next_hour: int, hours_left: list[int]) -> None:
    """Note that a sweep which began at `before` ran to its end, unless another one noted its own meanwhile."""
    actions = (
        Set(("v",), VERSION),
        Set(("t",), swept_ms),
        Set(("n",), next_hour),
        Set(("h",), [*hours_left]),
        Set(("ver",), before.version + 1),
    )
    expected = Compare(("ver",), "=", before.version) if before.version else Absent(("ver",))
    try:
        await catalog.update(Update(SWEEP_FLOOR_KEY, actions, expected))
    except (ConditionFailed, OutcomeUnknown):
        return  # at worst the next sweep looks at the same hours


def _decode(item: Item) -> SweepState:
    check_version(item, VERSION, "the sweep's floor")
    hours = attribute(item, "h", list) if "h" in item else []
    if not all(isinstance(hour, int) for hour in hours):
        raise FormatError("the sweep's floor contains hours that are not numbers")
    return SweepState(
        floor=attribute(item, "f", bytes) if "f" in item else NO_FLOOR,
        swept_ms=attribute(item, "t", int) if "t" in item else 0,
        next_hour=attribute(item, "n", int) if "n" in item else None,
        hours_left=tuple(hours),
        version=attribute(item, "ver", int) if "ver" in item else 0,
    )
