"""How many partitions one update of a head takes: DynamoDB limits the text and the operators of an expression.

Each producer of each partition is a comparison in the condition, so the batches of many producers that a gateway has
merged into one call may be more than an update takes. The others go with the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from odradek.engine.partition.head_append import PartitionAppend
from odradek.ports.expression_text import share_of_limits
from odradek.ports.table import Update

SURELY_FIT: Final = 32  # clauses: of one producer in all partitions of a head, or of a run (append.RUN_ENTRIES_MAX)


def fitting(parts: Sequence[PartitionAppend], update_of: Callable[[Sequence[PartitionAppend]], Update]) -> int:
    """Return how many of the parts, from the first one on, one update takes. The first always fits.

    Args:
        update_of: the update of some of them.
    """
    count = len(parts)
    while count > 1 and sum(len(part.clauses) for part in parts[:count]) > SURELY_FIT:
        share = share_of_limits(update_of(parts[:count]))
        if share <= 1:
            break
        count = max(1, min(count - 1, int(count / share)))
    return count
