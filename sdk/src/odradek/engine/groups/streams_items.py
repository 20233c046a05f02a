"""What streams groups add to the items of groups (docs/formats/group_items.md).

    Key                Value                                                        Lifetime
    g#<group>   gt     the topology: v: 1, z: JSON, compressed by zlib              first join .. DeleteGroups

    group     k: "streams"   t: target (below)   vt: True if the target was computed for a topology that was ready
              sh: id of the member that asked for the application's shutdown
    member    te: topology epoch   pi: process id   eh, ep: endpoint's host and port   ct: client tags {name: value}
              ta, tr: tasks, assigned and revoking (below); `as` and `rv` are the leases of the active ones

    tasks     for each role (active, standby, warm-up): varint subtopologies, then for each:
              varint bytes of its id, id (UTF-8), runs (groups/partition_sets.py)
    target    varint members, then for each: varint bytes of its id, id (UTF-8), tasks

"gt" sorts between "group" and "m#", so the Query that reads a group with its members reads the topology as well. It is
written once: a group keeps its topology.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from odradek.engine.groups.partition_sets import PackedReader, encode_runs
from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import FormatError
from odradek.format.item_keys import group_pk
from odradek.format.varint import encode_varlong
from odradek.model.streams import Endpoint, InternalTopic, Subtopology, TaskId, Tasks, Topology
from odradek.ports.table import Item, Key, Value

VERSION = 1
STREAMS_KIND = "streams"  # a streams group's `k`
TOPOLOGY_SK = "gt"
_TOPOLOGIES_REMEMBERED = 64


def topology_key(group_id: str) -> Key:
    """The item of a streams group's topology."""
    return Key(group_pk(group_id), TOPOLOGY_SK)


def encode_topology(topology: Topology) -> Item:
    """The topology's item, without its key."""
    fields = {
        "epoch": topology.epoch,
        "subtopologies": [
            {
                "id": each.subtopology_id,
                "sources": each.source_topics,
                "sinks": each.repartition_sink_topics,
                "repartition": [_topic_fields(topic) for topic in each.repartition_source_topics],
                "changelog": [_topic_fields(topic) for topic in each.changelog_topics],
                "copartition": each.copartition_groups,
            }
            for each in topology.subtopologies
        ],
    }
    return {"v": VERSION, "z": zlib.compress(json.dumps(fields, separators=(",", ":")).encode())}


def decode_topology(item: Item) -> Topology:
    """Decode a topology. Raises FormatError if the item is damaged or of another version."""
    check_version(item, VERSION, "a topology")
    return _topology(attribute(item, "z", bytes))


@lru_cache(maxsize=_TOPOLOGIES_REMEMBERED)
def _topology(packed: bytes) -> Topology:
    try:
        fields = json.loads(zlib.decompress(packed))
        return Topology(
            int(fields["epoch"]),
            tuple(
                Subtopology(
                    str(each["id"]),
                    tuple(map(str, each["sources"])),
                    tuple(map(str, each["sinks"])),
                    tuple(map(_topic, each["repartition"])),
                    tuple(map(_topic, each["changelog"])),
                    tuple(tuple(map(str, group)) for group in each["copartition"]),
                )
                for each in fields["subtopologies"]
            ),
        )
    except (zlib.error, ValueError, KeyError, TypeError) as error:
        raise FormatError("a stored topology cannot be decoded") from error


def _topic_fields(topic: InternalTopic) -> list[object]:
    return [topic.name, topic.partitions, topic.replication_factor, dict(topic.configs)]


def _topic(fields: Any) -> InternalTopic:
    name, partitions, replication_factor, configs = fields
    return InternalTopic(str(name), int(partitions), int(replication_factor), tuple(sorted(configs.items())))


def encode_tasks(tasks: Tasks) -> bytes:
    """Pack the tasks of a member."""
    return b"".join(_encode_role(role) for role in (tasks.active, tasks.standby, tasks.warmup))


def decode_tasks(data: bytes) -> Tasks:
    """Unpack the tasks of a member. Raises FormatError for anything that `encode_tasks` does not write."""
    reader = PackedReader(data)
    tasks = _decode_tasks(reader)
    reader.end()
    return tasks


def encode_task_target(target: Mapping[str, Tasks]) -> bytes:
    """Pack a target assignment."""
    out = bytearray(encode_varlong(len(target)))
    for member_id in sorted(target):
        out += _encode_text(member_id) + encode_tasks(target[member_id])
    return bytes(out)


def decode_task_target(data: bytes) -> dict[str, Tasks]:
    """Unpack a target assignment. Raises FormatError for anything that `encode_task_target` does not write."""
    reader = PackedReader(data)
    target = {}
    for _ in range(reader.count()):
        member_id = reader.text()
        target[member_id] = _decode_tasks(reader)
    reader.end()
    return target


def encode_tags(tags: Iterable[tuple[str, str]]) -> Item:
    """Client tags as a map."""
    values: dict[str, Value] = {f"#{name}": value for name, value in tags}
    return values


def decode_tags(stored: Mapping[str, Value]) -> tuple[tuple[str, str], ...]:
    """Client tags, sorted by name."""
    return tuple(sorted((name.removeprefix("#"), str(value)) for name, value in stored.items()))


def decode_endpoint(item: Item) -> Endpoint | None:
    """A member's endpoint, if it has one."""
    return Endpoint(attribute(item, "eh", str), attribute(item, "ep", int)) if "eh" in item else None


def _encode_text(text: str) -> bytes:
    encoded = text.encode()
    return encode_varlong(len(encoded)) + encoded


def _encode_role(tasks: frozenset[TaskId]) -> bytes:
    numbers: dict[str, list[int]] = {}
    for task in tasks:
        numbers.setdefault(task.subtopology_id, []).append(task.partition)
    out = bytearray(encode_varlong(len(numbers)))
    for subtopology_id in sorted(numbers):
        out += _encode_text(subtopology_id) + encode_runs(numbers[subtopology_id])
    return bytes(out)


def _decode_tasks(reader: PackedReader) -> Tasks:
    active, standby, warmup = (_decode_role(reader) for _ in range(3))
    return Tasks(active, standby, warmup)


def _decode_role(reader: PackedReader) -> frozenset[TaskId]:
    found: list[TaskId] = []
    for _ in range(reader.count()):
        subtopology_id = reader.text()
        found += [TaskId(subtopology_id, number) for number in reader.runs()]
    return frozenset(found)
