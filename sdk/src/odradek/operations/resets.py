"""New offsets for a group without members: computed from the log and the group, shown, then committed in one call.

For a share group, the offset is its start offset; records below it that were delivered and not acknowledged are
skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.client.admin.admin import Admin
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import TopicPartition
from odradek.operations.groups import describe_group, is_share_group
from odradek.operations.places import Place, resolve
from odradek.operations.topics import offsets_of


@dataclass(frozen=True, slots=True)
class NewOffset:
    """The present and the new offset of a partition."""

    partition: str
    committed: int | None
    new: int


@dataclass(frozen=True, slots=True)
class Reset:
    """A planned reset."""

    group: str
    is_share: bool
    target: Mapping[TopicPartition, int]
    committed: Mapping[TopicPartition, int]

    @property
    def rows(self) -> list[NewOffset]:
        """The partitions in order."""
        return [NewOffset(str(each), self.committed.get(each), self.target[each]) for each in sorted(self.target)]


async def plan_reset(
    admin: Admin,
    group_id: str,
    *,
    topics: Sequence[str] = (),
    place: Place | None = None,
    shift: int | None = None,
    given: Mapping[TopicPartition, int] | None = None,
) -> Reset:
    """Compute new offsets and commit nothing. Give one of `place`, `shift` and `given`.

    Args:
        topics: "name" or "name:0,2"; empty for all committed partitions.
        shift: records to move by, from the committed offset, or from the start if none is committed.
        given: offset of each partition.

    Raises:
        KafkaError: INVALID_CONFIG without partitions, UNKNOWN_TOPIC_OR_PARTITION, GROUP_ID_NOT_FOUND.
    """
    is_share = await is_share_group(admin, group_id)
    committed = await committed_offsets(admin, group_id, is_share=is_share)
    partitions = sorted(given) if given is not None else await _partitions(admin, topics, committed)
    if not partitions:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"group {group_id} has no committed offsets: give --topic")
    begins, ends = await offsets_of(admin, partitions)
    at_time: dict[TopicPartition, int | None] = {}
    if place is not None and place.kind == "time":
        found = await admin.list_offsets(dict.fromkeys(partitions, place.number))
        at_time = {each: at.offset if at.offset >= 0 else None for each, at in found.items()}
    target = new_offsets(place, shift, given, committed, begins, ends, at_time)
    return Reset(group_id, is_share, target, committed)


def new_offsets(
    place: Place | None,
    shift: int | None,
    given: Mapping[TopicPartition, int] | None,
    committed: Mapping[TopicPartition, int],
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    at_time: Mapping[TopicPartition, int | None],
) -> dict[TopicPartition, int]:
    """Return the new offset of each partition, within its log; a shift counts from the start if none is committed."""
    if place is not None:
        return resolve(place, begins, ends, at_time)
    if given is not None:
        wanted = dict(given)
    else:
        wanted = {each: committed.get(each, begins[each]) + (shift or 0) for each in ends}
    return {each: max(begins[each], min(offset, ends[each])) for each, offset in wanted.items()}


async def apply_reset(admin: Admin, reset: Reset) -> None:
    """Commit the offsets of a plan. Raises KafkaError(NON_EMPTY_GROUP) if the group has members."""
    try:
        members = (await describe_group(admin, reset.group)).members
        if members:
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP, f"group {reset.group} has {len(members)} members: stop them first"
            )
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:  # the reset creates it
            raise
    if reset.is_share:
        await admin.alter_share_group_offsets(reset.group, reset.target)
    else:
        await admin.alter_consumer_group_offsets(reset.group, dict(reset.target))


async def committed_offsets(admin: Admin, group_id: str, *, is_share: bool) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group, or the start offsets of a share group."""
    if is_share:
        found = await admin.list_share_group_offsets(group_id)
        return {each: at.start_offset for each, at in found.items() if at.start_offset >= 0}
    return {each: at.offset for each, at in (await admin.list_consumer_group_offsets(group_id)).items()}


async def _partitions(
    admin: Admin, topics: Sequence[str], committed: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    if not topics:
        return sorted(committed)
    found: set[TopicPartition] = set()
    for text in topics:
        name, _, numbers = text.partition(":")
        there = set((await admin.describe_topics([name]))[name].partitions)
        try:
            asked = {TopicPartition(name, int(number)) for number in numbers.split(",")} if numbers else there
        except ValueError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"--topic must be name or name:0,2, not {text!r}") from error
        if not asked <= there:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} has partitions 0 to {len(there) - 1}"
            )
        found |= asked
    return sorted(found)
