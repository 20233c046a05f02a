"""The fence that a growing topic puts up in its heads (docs/decisions/0062): pure but for one update.

    g   how many partitions the topic has, or will have in a moment; absent: it has not grown

A producer that says by how many partitions it chose the partitions of keyed records is refused once the fence says
more. So what is below the next offset that the fence's own update returns is all that such producers will ever have
written by fewer partitions, and no later append joins it.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.engine.partition.fields import is_version
from odradek.engine.partition.head import FENCE, VERSION, head_key
from odradek.engine.partition.shared_head import HeadImage, decode_image
from odradek.errors import ConditionFailed
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Absent, AnyOf, Compare, Condition, Item, Set, Table, Update, all_of

_PATH = (FENCE,)


def fences_nobody(partition_counts: Iterable[int | None]) -> tuple[Condition, ...]:
    """Return the condition of an append of batches whose partitions were chosen by these counts; None: not by a key."""
    chosen_by = min((count for count in partition_counts if count is not None), default=None)
    return () if chosen_by is None else (AnyOf((Absent(_PATH), Compare(_PATH, "<=", chosen_by))),)


async def raise_fence(log: Table, head_id: PartitionId, partition_count: int) -> HeadImage | None:
    """Raise the fence of a head, which only rises; return what the head says with it, or None: it does not exist.

    Raises StoreUnavailable, OutcomeUnknown (repeat it); FormatError: the head is damaged, or of a later release.
    """
    item: Item | None
    is_lower = AnyOf((Absent(_PATH), Compare(_PATH, "<", partition_count)))
    update = Update(head_key(head_id), (Set(_PATH, partition_count),), all_of(is_version(VERSION), is_lower))
    try:
        item = await log.update(update)
    except ConditionFailed as refused:
        item = refused.current
    return None if item is None else decode_image(head_id, item)
