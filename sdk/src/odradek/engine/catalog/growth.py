"""How a topic grows and keeps the order of its keys (docs/decisions/0062). Pure.

A topic that grows from n to a multiple of n partitions moves some of the keys of partition p, which is `hash % n`, to
*children*: the new partitions c with c % n = p, their *parent*. The steps, each of which may be repeated:

    1. the topic's row notes that it is growing                  who finds the note may finish what was begun
    2. heads of the new partitions; fences in the old heads      from here on no producer of ours writes by n
       (partition/head_append.py), and their next offsets: the marks
    3. one transaction: the row has the new partitions,          visible only when whole
       and the growth; the marks are stored

A consumer group gets a child when it has consumed the parent up to the mark (groups/growth_holds.py).

    growths / <topic id>#<partitions after it, 5 digits>    v: version, m: marks of the former partitions, i64 each
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from uuid import UUID

from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import FormatError
from odradek.format.item_keys import GROWTHS_PK, growth_sk
from odradek.model.topic import Growth, Topic
from odradek.ports.table import Item, Key, Value

VERSION = 1
_MARK_BYTES = 8


def keeps_order(topic: Topic, partition_count: int, hold_ms: int) -> bool:
    """Return True if growing to so many partitions keeps the order of keys: each child has one parent."""
    return hold_ms > 0 and partition_count % topic.partition_count == 0


def parent_of(partition: int, growths: Sequence[Growth]) -> tuple[Growth, int] | None:
    """The growth that made a partition, and the partition that had its keys before; None: it has no parent."""
    for growth in growths:
        if growth.before <= partition < growth.after:
            return growth, partition % growth.before
    return None


def ancestors_of(partition: int, growths: Sequence[Growth]) -> Iterator[tuple[Growth, int]]:
    """The parent, its parent and so on, each with the growth that took keys from it."""
    found = parent_of(partition, growths)
    while found is not None:
        yield found
        found = parent_of(found[1], growths)


def marks_key(topic_id: UUID, growth: Growth) -> Key:
    """The item of a growth's marks."""
    return Key(GROWTHS_PK, growth_sk(topic_id, growth.after))


def encode_marks(marks: Sequence[int]) -> Item:
    """The item of marks, without its key."""
    return {"v": VERSION, "m": struct.pack(f">{len(marks)}q", *marks)}


def decode_marks(item: Item) -> tuple[int, ...]:
    """The mark of each former partition. Raises FormatError."""
    check_version(item, VERSION, "the marks of a growth")
    packed = attribute(item, "m", bytes)
    if len(packed) % _MARK_BYTES:
        raise FormatError("the marks of a growth are damaged")
    return struct.unpack(f">{len(packed) // _MARK_BYTES}q", packed)


def encode_growth(growth: Growth) -> list[Value]:
    """A growth in the topic's row."""
    return [growth.before, growth.after, growth.at_ms]


def decode_growth(value: Value) -> Growth:
    """A growth from the topic's row. Raises FormatError."""
    match value:
        case [int(before), int(after), int(at_ms)]:
            return Growth(before, after, at_ms)
        case _:
            raise FormatError(f"{value!r} is not a growth of a topic")
