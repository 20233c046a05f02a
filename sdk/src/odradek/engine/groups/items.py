"""Items of the groups table, to and from the state (docs/formats/group_items.md).

    Key                                      Value                    Lifetime
    groups       <group id>                  {"v": 1}: a listing row  as the group item
    g#<group>    group                       the group                first join or commit .. DeleteGroups
    g#<group>    m#<member id>               a member                 join .. leave or expiry
    g#<group>    o#<topic id>#<partition>    leases (leases.py)       first grant or commit .. DeleteGroups

A group of the classic protocol has another item under the same key, and sessions beside it (groups/classic_items.py).

`g#` keeps a group named "groups" apart from the listing. "group" and "m#" sort next to each other and before "o#",
so one Query reads a group with its members and no lease.

    group     v: format version 1   n: version        e: epoch         a: assignor
              t: target (groups/partition_sets.py)         d: digest of the topics behind the target    c: members
              ta: target computed at, ms              ti: how long the next one waits from then on, ms    (absent: 0)
              hs: partitions were held since, ms (absent: 0)
              k: "share" for a share group (share/items.py has its other items), "streams" for a streams group
              (groups/streams_items.py has its other attributes and items), else absent

    member    v: format version 1   n: version        e: epoch         pe: previous epoch    w: nonce of the writer
              i: instance id        r: rack           ci, ch: client id, host
              s: subscribed topics  x: topic pattern  sa: assignor asked for
              rt: rebalance timeout, ms   st: session, ms   hi: heartbeat interval, ms
              rn: renewed at, ms    re: revoking for, ms    as, rv: assigned, revoking (groups/partition_sets.py)
              ws: watches, {member id: [version, elapsed ms]}; absent where there is none

Optional strings are absent rather than null. Version 1 is the only one; a reader refuses others.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.engine.groups.classic_items import decode_classic, is_classic
from odradek.engine.groups.partition_sets import decode_partitions, decode_target, encode_partitions, encode_target
from odradek.engine.groups.state import GroupState, MemberState, StreamsGroup, StreamsMember, Watch
from odradek.engine.groups.streams_items import (
    STREAMS_KIND,
    decode_endpoint,
    decode_tags,
    decode_task_target,
    decode_tasks,
    encode_tags,
    encode_task_target,
    encode_tasks,
)
from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import FormatError
from odradek.format.item_keys import group_pk
from odradek.ports.table import Item, Key, Value

VERSION = 1
LISTING_PK = "groups"
SHARE_KIND = "share"  # a share group's `k`; a consumer group has none
GROUP_SK = "group"
MEMBER_PREFIX = "m#"
MEMBERS_END = "m$"  # the first key after every member


def listing_key(group_id: str) -> Key:
    """The row by which a group is listed."""
    return Key(LISTING_PK, group_id)


def group_key(group_id: str) -> Key:
    """The group item."""
    return Key(group_pk(group_id), GROUP_SK)


def member_key(group_id: str, member_id: str) -> Key:
    """The item of a member."""
    return Key(group_pk(group_id), f"{MEMBER_PREFIX}{member_id}")


def encode_group(group: GroupState) -> Item:
    """The group's item, without its key."""
    kind: Item = {"k": SHARE_KIND} if group.is_share else {}
    if group.streams is not None:
        kind = {"k": STREAMS_KIND, "vt": group.streams.is_ready}
        if group.streams.shutdown_by is not None:
            kind["sh"] = group.streams.shutdown_by
    return {
        **kind,
        "v": VERSION,
        "n": group.version,
        "e": group.epoch,
        "a": group.assignor,
        "t": encode_target(group.target) if group.streams is None else encode_task_target(group.streams.target),
        "d": group.topics_digest,
        "c": group.member_count,
        "ta": group.assigned_ms,
        "ti": group.assignment_interval_ms,
        **({"hs": group.held_since_ms} if group.held_since_ms else {}),
    }


def decode_group(group_id: str, item: Item) -> GroupState:
    """Decode a group. Raises FormatError if the item is damaged or of another version."""
    check_version(item, VERSION, f"group {group_id}")
    if is_classic(item):
        classic = decode_classic(item)
        return GroupState(
            group_id,
            version=attribute(item, "n", int),
            epoch=classic.generation,
            assignor=classic.protocol or "",
            member_count=len(classic.members),
            classic=classic,
        )
    target = attribute(item, "t", bytes)
    streams = None
    if item.get("k") == STREAMS_KIND:
        streams = StreamsGroup(decode_task_target(target), item.get("vt") is True, _text(item, "sh"))
    return GroupState(
        group_id=group_id,
        version=attribute(item, "n", int),
        epoch=attribute(item, "e", int),
        assignor=attribute(item, "a", str),
        target=decode_target(target) if streams is None else {},
        topics_digest=attribute(item, "d", bytes),
        member_count=attribute(item, "c", int),
        assigned_ms=attribute(item, "ta", int) if "ta" in item else 0,
        assignment_interval_ms=attribute(item, "ti", int) if "ti" in item else 0,
        held_since_ms=attribute(item, "hs", int) if "hs" in item else 0,
        is_share=item.get("k") == SHARE_KIND,
        streams=streams,
    )


def encode_member(member: MemberState) -> Item:
    """The member's item, without its key."""
    item: Item = {
        "v": VERSION,
        "n": member.version,
        "e": member.epoch,
        "pe": member.previous_epoch,
        "w": member.nonce,
        "ci": member.client_id,
        "ch": member.client_host,
        "s": list(member.subscribed_topic_names),
        "rt": member.rebalance_timeout_ms,
        "st": member.session_ms,
        "hi": member.interval_ms,
        "rn": member.renewed_ms,
        "re": member.revoking_elapsed_ms,
        "as": encode_partitions(member.assigned),
        "rv": encode_partitions(member.revoking),
    }
    optional = {
        "i": member.instance_id,
        "r": member.rack_id,
        "x": member.subscribed_topic_regex,
        "sa": member.assignor,
    }
    item.update({name: text for name, text in optional.items() if text is not None})
    if member.watches:
        item["ws"] = {member_id: [watch.version, watch.elapsed_ms] for member_id, watch in member.watches.items()}
    return item if member.streams is None else item | _encode_streams(member.streams)


def _encode_streams(member: StreamsMember) -> Item:
    item: Item = {
        "te": member.topology_epoch,
        "pi": member.process_id,
        "ta": encode_tasks(member.assigned),
        "tr": encode_tasks(member.revoking),
    }
    if member.endpoint is not None:
        item |= {"eh": member.endpoint.host, "ep": member.endpoint.port}
    if member.client_tags:
        item["ct"] = encode_tags(member.client_tags)
    return item


def _decode_streams(item: Item) -> StreamsMember | None:
    if "te" not in item:
        return None
    return StreamsMember(
        topology_epoch=attribute(item, "te", int),
        process_id=attribute(item, "pi", str),
        endpoint=decode_endpoint(item),
        client_tags=decode_tags(attribute(item, "ct", dict)) if "ct" in item else (),
        assigned=decode_tasks(attribute(item, "ta", bytes)),
        revoking=decode_tasks(attribute(item, "tr", bytes)),
    )


def decode_member(member_id: str, item: Item) -> MemberState:
    """Decode a member. Raises FormatError if the item is damaged or of another version."""
    check_version(item, VERSION, f"member {member_id}")
    return MemberState(
        member_id=member_id,
        epoch=attribute(item, "e", int),
        previous_epoch=attribute(item, "pe", int),
        version=attribute(item, "n", int),
        nonce=attribute(item, "w", bytes),
        instance_id=_text(item, "i"),
        rack_id=_text(item, "r"),
        client_id=attribute(item, "ci", str),
        client_host=attribute(item, "ch", str),
        subscribed_topic_names=tuple(str(name) for name in attribute(item, "s", list)),
        subscribed_topic_regex=_text(item, "x"),
        assignor=_text(item, "sa"),
        rebalance_timeout_ms=attribute(item, "rt", int),
        session_ms=attribute(item, "st", int),
        interval_ms=attribute(item, "hi", int),
        renewed_ms=attribute(item, "rn", int),
        revoking_elapsed_ms=attribute(item, "re", int),
        assigned=decode_partitions(attribute(item, "as", bytes)),
        revoking=decode_partitions(attribute(item, "rv", bytes)),
        watches=_watches(attribute(item, "ws", dict)) if "ws" in item else {},
        streams=_decode_streams(item),
    )


def _text(item: Item, name: str) -> str | None:
    return attribute(item, name, str) if name in item else None


def _watches(stored: Mapping[str, Value]) -> dict[str, Watch]:
    watches = {}
    for member_id, pair in stored.items():
        match pair:
            case [int(version), int(elapsed_ms)]:
                watches[member_id] = Watch(version, elapsed_ms)
            case _:
                raise FormatError(f"a member watches {member_id} with {pair!r}")
    return watches
