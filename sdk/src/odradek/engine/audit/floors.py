"""Repair of a spill floor that a clock far ahead has raised. Until real time has caught up, every process without a
copy of the floor pays a refused append and a query of rows, and commit times are in the future.

    1. spill    until no entry is left in the tail: one would raise the floor again
    2. lower    the floor to now, and raise the sweep floor above every upload so far, in one update of the head on the
                condition that nothing has been appended since

A spill floor only rises, since an append that was applied and spilled must not be applied again when a repetition of it
arrives late (decisions/0002). After it is lowered, sequences still protect idempotent producers. Plain batches that
were sent before the repair have an older upload, which the raised sweep floor refuses; a writer in the middle of an
append that does not know whether an attempt was applied reports that (conditional_append.py). What remains is a plain
append of the wrong clock itself, whose object id is ahead too: one that is still on its way may be applied twice, like
any plain append whose answer was lost. A transaction that is open at that moment cannot be committed, and is aborted.

A process keeps a floor that it has met for a minute, and may raise it once more: repair again then.
"""

from __future__ import annotations

from odradek.engine.partition.fields import is_version
from odradek.engine.partition.head import VERSION, head_key
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.shared_head import HeadImage, SharedHead
from odradek.engine.tools import Tools
from odradek.errors import ConditionFailed
from odradek.format.object_id import new_object_id
from odradek.limits import CLOCK_AHEAD_MS_MAX
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Compare, Condition, Set, Update, all_of

_ATTEMPTS = 16


def is_ahead(floor_ms: int, now_ms: int) -> bool:
    """Return True if a floor cannot come from a clock that is approximately right."""
    return floor_ms > now_ms + CLOCK_AHEAD_MS_MAX


async def lower_spill_floor(tools: Tools, index: PartitionIndex, partition: PartitionId) -> bool:
    """Lower a spill floor that is far ahead; whether that was done. Raises StoreError, FormatError: repair again."""
    for _ in range(_ATTEMPTS):
        head = await index.read_head(partition)
        image = await index.read_image(partition.head_id)
        now_ms = tools.clock.now_ms()
        if head is None or image is None or not is_ahead(image.spill_floor_ms, now_ms):
            return False
        if image.tail or (isinstance(image, SharedHead) and image.has_pages):
            await index.spill_to_rows(partition, head)
            continue
        floor = max(image.sweep_floor, new_object_id(now_ms, tools.rng.random_bytes))
        update = Update(head_key(partition), (Set(("sf",), now_ms), Set(("wf",), floor)), _unchanged(image))
        try:
            await tools.tables.log.update(update)
        except ConditionFailed:
            continue  # somebody appended or spilled meanwhile
        return True
    return False


def _unchanged(head: HeadImage) -> Condition:
    if isinstance(head, SharedHead):
        nothing_new = [Compare(("by",), "=", head.appended_bytes), Compare(("q",), "=", head.paged)]
    else:
        nothing_new = [Compare(("no",), "=", head.next_offset), Compare(("tb",), "=", head.tail_base_offset)]
    return all_of(is_version(VERSION), *nothing_new, Compare(("sf",), "=", head.spill_floor_ms))
