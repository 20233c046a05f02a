"""Damage: stored bytes of a log that are missing, or are not those that were written.

Damage hides nothing but itself. A reader gets the records before it, then CORRUPT_MESSAGE with the offset, and the
records after it from the next offset on that is intact. A process logs each damaged offset once, and counts it under
`damaged_ranges`, which raises `attention` (docs/OPERATIONS.md).

    missing object   at first a merge may have been faster: the reader plans again. If a new plan names the same
                     object, a row that was read after the object had been missed still refers to it: it is damage
    wrong bytes      never replaced by a merge: damage at once
"""

from __future__ import annotations

import logging

from odradek.errors import ErrorCode, KafkaError, ObjectMissing
from odradek.model.topic_partition import PartitionId
from odradek.ports.meter import Meter, NullMeter, Usage

_NOTED_MAX = 10_000
_log = logging.getLogger("odradek.damage")


class Damages:
    """The damaged offsets that a process has met."""

    def __init__(self, meter: Meter | None = None) -> None:
        self._meter = meter or NullMeter()
        self._noted: set[str] = set()

    def note(self, topic: str, partition: PartitionId, offset: int, reason: Exception) -> KafkaError:
        """Log and count a damaged offset, the first time; return the error that a reader gets at it."""
        text = f"offset {offset} of {topic}-{partition.partition} cannot be read: {described(reason)}"
        self._note(f"{partition} {offset}", text)
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{text}: run `odradek audit`")

    def note_index(self, key: str, reason: Exception) -> None:
        """Log and count an index that is made again from its segment, the first time."""
        self._note(key, f"the index of a segment cannot be read, and is made from the segment: {described(reason)}")

    def _note(self, name: str, text: str) -> None:
        if name not in self._noted and len(self._noted) < _NOTED_MAX:
            self._noted.add(name)
            self._meter.add("Damage", Usage(damaged_ranges=1))
            _log.error("%s: run `odradek audit`, then see Damaged records in docs/OPERATIONS.md", text)


def described(damage: Exception) -> str:
    """Return a damage for people: an adapter's ObjectMissing is only the object's key."""
    text = str(damage)
    return f"{text} is missing" if isinstance(damage, ObjectMissing) and " " not in text else text
