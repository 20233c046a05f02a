"""Items of share groups beside the group and its members, to and from the state (docs/formats/group_items.md).

    Key                                      Value                               Lifetime
    g#<group>    s#<topic id>#<partition>    a share-partition: the window       first fetch .. the group's, topic's end
    g#<group>    t#<member id>               a share session                     open .. close, the member's end

    share-partition   v: format version 1    n: version, raised by every write    i: incarnation, 8 bytes, made with it
                      so: start offset       r: runs (bytes)    m: holders' ids, which runs name by their place
                      ln: lot number         w: nonces of the last writers, 8 bytes each, the newest last

    session           v: format version 1    n: the epoch that the next request must have
                      w: nonce of the writer p: partitions (groups/partition_sets.py)

    runs    base time ms (varlong), then for each run: length (varint), state (a byte: bits 0-2 the state, bit 3
            rejected), delivery count (varint); where it is ACQUIRED holder's place (varint), lock end less the base
            time (varlong)

Runs have no offsets: the first begins at the start offset, each other where the one before ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from odradek.engine.groups.partition_sets import decode_partitions, encode_partitions
from odradek.engine.partition.fields import attribute, check_version
from odradek.engine.share.window import RecordState, Run, SharePartition
from odradek.errors import FormatError
from odradek.format.item_keys import SHARE_PARTITION_PREFIX, group_pk, share_session_sk
from odradek.format.varint import decode_varint, decode_varlong, encode_varlong
from odradek.limits import SHARE_HOLDERS_MAX
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Item, Key

VERSION = 1
NONCE_BYTES = 8
NONCES_KEPT = 16
_STATE_BITS = 0x07
_REJECTED_BIT = 0x08


@dataclass(frozen=True, slots=True)
class ShareItem:
    """A share-partition in its stored form."""

    state: SharePartition
    incarnation: bytes  # a group deleted and made again has another: a late write of the old one meets no item of it
    version: int = 0
    nonces: tuple[bytes, ...] = ()  # of the last writes, the newest last

    def has_taken(self, nonce: bytes) -> bool:
        """Return True if that write is among the last ones."""
        return nonce in self.nonces


@dataclass(frozen=True, slots=True)
class ShareSession:
    """The partitions that a member reads, and the epoch of its next request."""

    epoch: int
    nonce: bytes
    partitions: frozenset[PartitionId] = field(default_factory=frozenset)


def share_key(group_id: str, partition: PartitionId) -> Key:
    """The item of a share-partition."""
    return Key(group_pk(group_id), f"{share_prefix(partition)}{partition.partition}")


def share_prefix(partition: PartitionId) -> str:
    """The start of the `sk` of every share-partition of the topic."""
    return f"{SHARE_PARTITION_PREFIX}{partition.topic_id}#"


def share_partition(sk: str) -> PartitionId:
    """Return the partition in a share-partition's `sk`. Raises FormatError for another key."""
    try:
        topic_id, number = sk.removeprefix(SHARE_PARTITION_PREFIX).split("#")
        return PartitionId(UUID(topic_id), int(number))
    except ValueError as error:
        raise FormatError(f"{sk!r} is not the key of a share-partition") from error


def share_session_key(group_id: str, member_id: str) -> Key:
    """The item of a member's session."""
    return Key(group_pk(group_id), share_session_sk(member_id))


def letters_writer(incarnation: bytes) -> str:
    """The writer of numbered batches (numbered_batches.py) whose batches are the lots of a window."""
    return f"share/{incarnation.hex()}"


def encode_share(item: ShareItem) -> Item:
    """The share-partition's item, without its key."""
    state = item.state
    holders = sorted({run.member_id for run in state.runs if run.state is RecordState.ACQUIRED})
    places = {member_id: place for place, member_id in enumerate(holders)}
    base_ms = min((run.lock_until_ms for run in state.runs if run.state is RecordState.ACQUIRED), default=0)
    out = bytearray(encode_varlong(base_ms))
    for run in state.runs:
        out += encode_varlong(run.end - run.start)
        out.append(int(run.state) | (_REJECTED_BIT if run.is_rejected else 0))
        out += encode_varlong(run.delivery_count)
        if run.state is RecordState.ACQUIRED:
            out += encode_varlong(places[run.member_id]) + encode_varlong(run.lock_until_ms - base_ms)
    return {
        "v": VERSION,
        "n": item.version,
        "i": item.incarnation,
        "so": state.start_offset,
        "r": bytes(out),
        "m": list(holders),
        "ln": state.lot_number,
        "w": b"".join(item.nonces[-NONCES_KEPT:]),
    }


def decode_share(item: Item) -> ShareItem:
    """Decode a share-partition. Raises FormatError if the item is damaged or of another version."""
    check_version(item, VERSION, "a share-partition")
    start = attribute(item, "so", int)
    holders = attribute(item, "m", list)
    if len(holders) > SHARE_HOLDERS_MAX or not all(isinstance(each, str) for each in holders):
        raise FormatError("the holders of a share-partition are damaged")
    nonces = attribute(item, "w", bytes)
    try:
        runs = _decode_runs(attribute(item, "r", bytes), start, [str(each) for each in holders])
    except (IndexError, ValueError) as error:
        raise FormatError("the runs of a share-partition are damaged") from error
    return ShareItem(
        SharePartition(start, runs, attribute(item, "ln", int)),
        incarnation=attribute(item, "i", bytes),
        version=attribute(item, "n", int),
        nonces=tuple(nonces[at : at + NONCE_BYTES] for at in range(0, len(nonces), NONCE_BYTES)),
    )


def _decode_runs(data: bytes, start: int, holders: list[str]) -> tuple[Run, ...]:
    base_ms, at = decode_varlong(data, 0)
    runs = []
    while at < len(data):
        length, at = decode_varlong(data, at)
        kind = data[at]
        count, at = decode_varint(data, at + 1)
        state = RecordState(kind & _STATE_BITS)
        member_id, lock_until_ms = "", 0
        if state is RecordState.ACQUIRED:
            place, at = decode_varint(data, at)
            after_ms, at = decode_varlong(data, at)
            if place < 0:
                raise ValueError(place)
            member_id, lock_until_ms = holders[place], base_ms + after_ms
        if length < 1 or count < 0 or kind & ~(_STATE_BITS | _REJECTED_BIT):
            raise ValueError(kind)
        runs.append(Run(start, start + length, state, count, member_id, lock_until_ms, bool(kind & _REJECTED_BIT)))
        start += length
    return tuple(runs)


def encode_session(session: ShareSession) -> Item:
    """The session's item, without its key."""
    return {"v": VERSION, "n": session.epoch, "w": session.nonce, "p": encode_partitions(session.partitions)}


def decode_session(item: Item) -> ShareSession:
    """Decode a share session. Raises FormatError if the item is damaged or of another version."""
    check_version(item, VERSION, "a share session")
    return ShareSession(
        attribute(item, "n", int), attribute(item, "w", bytes), decode_partitions(attribute(item, "p", bytes))
    )
