"""Items of classic groups, to and from the state (docs/formats/group_items.md).

    Key                           Value                       Lifetime
    g#<group>   group             the group, with "k"         first join .. DeleteGroups, or a group of the new protocol
    g#<group>   gs#<member id>    a session                   join .. the next write after the member has gone

A group is of one type at a time because both types are one item under one key. All of a classic group but the
sessions is in that item, so that each step is one write on one version; sessions are apart so that heartbeats never
contend.

    group     v: format version 1   n: version   k: "classic"
              s: state   g: generation   pt: protocol type   p: protocol   l: leader   in: whether the round is initial
              i: member ids (what a commit's condition looks into)
              hp, hs, ht: partitions held back, since when, and when the assignments came, ms; absent: none
              m: members: id, i: instance id, ci, ch: client id, host, st: session ms, rt: rebalance ms,
                 p: [name, metadata, name, metadata ...], a: assignment, j: joined

    session   v: format version 1   n: counter, raised by every heartbeat   rn: renewed at, ms

Optional strings are absent rather than null.
"""

from __future__ import annotations

from odradek.engine.groups.partition_sets import decode_partitions, encode_partitions
from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import FormatError
from odradek.format.item_keys import classic_session_sk, group_pk
from odradek.model.classic_group import ClassicGroup, ClassicMember, ClassicSession, ClassicState
from odradek.ports.table import Item, Key, Value

VERSION = 1
KIND = "classic"


def classic_session_key(group_id: str, member_id: str) -> Key:
    """The item of a classic member's session."""
    return Key(group_pk(group_id), classic_session_sk(member_id))


def encode_classic(group: ClassicGroup, version: int) -> Item:
    """The group's item, without its key."""
    item: Item = {
        "v": VERSION,
        "n": version,
        "k": KIND,
        "s": group.state.value,
        "g": group.generation,
        "pt": group.protocol_type,
        "in": group.is_initial,
        "i": [member.member_id for member in group.members],
        "m": [_encode_member(member) for member in group.members],
    }
    if group.protocol is not None:
        item["p"] = group.protocol
    if group.leader is not None:
        item["l"] = group.leader
    if group.held_since_ms:
        item |= {"hp": encode_partitions(group.held), "hs": group.held_since_ms, "ht": group.synced_ms}
    return item


def is_classic(item: Item) -> bool:
    """Return True for the item of a classic group."""
    return item.get("k") == KIND


def decode_classic(item: Item) -> ClassicGroup:
    """Decode a classic group. Raises FormatError if the item is damaged or of another version."""
    check_version(item, VERSION, "a classic group")
    state = attribute(item, "s", str)
    if state not in set(ClassicState):
        raise FormatError(f"the classic group has an unknown state {state!r}")
    return ClassicGroup(
        state=ClassicState(state),
        generation=attribute(item, "g", int),
        protocol_type=attribute(item, "pt", str),
        protocol=_text(item, "p"),
        leader=_text(item, "l"),
        members=tuple(_decode_member(member) for member in attribute(item, "m", list)),
        is_initial=item.get("in") is True,
        held=decode_partitions(attribute(item, "hp", bytes)) if "hp" in item else frozenset(),
        held_since_ms=attribute(item, "hs", int) if "hs" in item else 0,
        synced_ms=attribute(item, "ht", int) if "ht" in item else 0,
    )


def decode_classic_session(item: Item) -> ClassicSession:
    """Decode a session. Raises FormatError if the item is damaged or of another version."""
    check_version(item, VERSION, "a session")
    return ClassicSession(attribute(item, "n", int), attribute(item, "rn", int))


def _encode_member(member: ClassicMember) -> dict[str, Value]:
    item: dict[str, Value] = {
        "id": member.member_id,
        "ci": member.client_id,
        "ch": member.client_host,
        "st": member.session_ms,
        "rt": member.rebalance_ms,
        "p": [part for protocol in member.protocols for part in protocol],
        "a": member.assignment,
        "j": member.joined,
    }
    if member.instance_id is not None:
        item["i"] = member.instance_id
    return item


def _decode_member(item: object) -> ClassicMember:
    if not isinstance(item, dict):
        raise FormatError(f"a classic group has {type(item).__name__} instead of a member")
    parts = attribute(item, "p", list)
    protocols = []
    for name, metadata in zip(parts[::2], parts[1::2], strict=False):
        if not isinstance(name, str) or not isinstance(metadata, bytes):
            raise FormatError("a classic member's protocols are damaged")
        protocols.append((name, metadata))
    return ClassicMember(
        member_id=attribute(item, "id", str),
        instance_id=_text(item, "i"),
        client_id=attribute(item, "ci", str),
        client_host=attribute(item, "ch", str),
        session_ms=attribute(item, "st", int),
        rebalance_ms=attribute(item, "rt", int),
        protocols=tuple(protocols),
        assignment=attribute(item, "a", bytes),
        joined=item.get("j") is True,
    )


def _text(item: Item, name: str) -> str | None:
    return attribute(item, name, str) if name in item else None
