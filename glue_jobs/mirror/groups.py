"""Committed offsets of consumer groups, copied from one installation to another.

A group of the target is only moved forward, and only while it has no members: its own members take precedence.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from odradek.errors import ErrorCode, KafkaError
from odradek.glue_jobs.mirror.offsets import Syncs, translate
from odradek.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek import Admin


def sync_groups(source: Admin, target: Admin, pattern: str, syncs: Syncs, *, topic_prefix: str = "") -> dict[str, int]:
    """Copy the offsets of matching groups; return the number of moved partitions by group.

    Raises KafkaError.
    """
    moved: dict[str, int] = {}
    for group_id in sorted(group.group_id for group in source.list_consumer_groups()):
        if not re.fullmatch(pattern, group_id):
            continue
        wanted = _translated(source, group_id, syncs, topic_prefix)
        if not wanted or _has_members(target, group_id):
            continue
        target_offsets = target.list_consumer_group_offsets(group_id)
        ahead = {
            tp: offset
            for tp, offset in wanted.items()
            if tp not in target_offsets or target_offsets[tp].offset < offset
        }
        if ahead:
            target.alter_consumer_group_offsets(group_id, ahead)
            moved[group_id] = len(ahead)
    return moved


def _translated(source: Admin, group_id: str, syncs: Syncs, topic_prefix: str) -> dict[TopicPartition, int]:
    translated: dict[TopicPartition, int] = {}
    for tp, committed in source.list_consumer_group_offsets(group_id).items():
        rows = syncs.get(tp.topic, {}).get(tp.partition, [])
        offset = translate(rows, committed.offset)
        if offset is not None:
            translated[TopicPartition(topic_prefix + tp.topic, tp.partition)] = offset
    return translated


def _has_members(target: Admin, group_id: str) -> bool:
    try:
        return bool(target.describe_consumer_groups([group_id])[group_id].members)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return False
        raise
