"""The ledger: what was truly applied to the store, and what must hold after every single write.

It keeps what the store forgets: every entry that ever entered a log with its offset, every byte that was ever uploaded,
every commit. From these it knows the *true log* of a partition, whatever merges, compactions and deletions did later.

Checked at once, at every write:

* a head only moves forward: next offset, log start, tail base, both floors, leader epoch; a leader only changes with it
* next offset = tail base + what the tail holds; an entry enters once, and its bytes are there
* the index is dense from the log start to the tail base, without overlaps: a reader sees all of it at every moment
* nothing that a live row or tail refers to is deleted
* a commit is made by the partition's owner, and does not go back
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from odradek.engine.group_rows import LEASE_PREFIX, decode_lease
from odradek.engine.index_row import decode_index_row
from odradek.engine.log_reader import Piece, entry_piece, row_pieces
from odradek.format.item_keys import HEAD_SK, INDEX_PREFIX, TOPICS_PK, index_base_offset
from odradek.format.object_keys import index_key
from odradek.format.tail_entry import decode_tail_entry
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.table import Item, Key

_COUNT = struct.Struct(">I")
_COUNT_AT = 26  # of the offset count in a packed tail entry
_RISING = {
    "no": "next offset",
    "ls": "log start",
    "tb": "tail base",
    "sf": "spill floor",
    "wf": "sweep floor",
    "le": "leader epoch",
    "by": "appended bytes",
}
_PROBLEMS_MAX = 50


@dataclass(frozen=True)
class StartMove:
    """A log start that rose."""

    pk: str
    at_ms: int
    start: int
    caller: str


@dataclass(frozen=True)
class Commit:
    """A commit as the table applied it."""

    committer: str
    owner: str | None
    lease_epoch: int
    offset: int


class Ledger:
    """The witness's book.

    Attributes:
        problems: what was wrong, in the order of its happening.
        truth: per partition key, every entry that entered its log: (base offset, packed entry).
        uploads: every WAL item (by object id) and object (by key) that was ever written.
        gone: partitions whose head was deleted.
        starts: every rise of a log start.
        live_topics: ids of topics that are in the catalog.
        topic_names, configs: of every topic id that there ever was; configurations with the time of their change, ms.
        commits: per lease, in the order of their application.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.caller = ""
        self.problems: list[str] = []
        self.truth: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
        self.heads: dict[str, Item] = {}
        self.gone: set[str] = set()
        self.uploads: dict[bytes | str, bytes] = {}
        self.starts: list[StartMove] = []
        self.live_topics: set[UUID] = set()
        self.topic_names: dict[UUID, str] = {}
        self.configs: dict[UUID, list[tuple[int, dict[str, str]]]] = defaultdict(list)
        self.commits: dict[Key, list[Commit]] = defaultdict(list)
        self.log_rows: Callable[[str], Mapping[str, Any]] = lambda pk: {}
        self.has_object: Callable[[str], bool] = lambda key: True
        self._live_items: set[bytes] = set()
        self._seen: dict[str, set[bytes]] = defaultdict(set)
        self._dirty: dict[str, None] = {}

    def problem(self, text: str) -> None:
        """Something is wrong; the same thing is said once."""
        line = f"{text} (by {self.caller})"
        if line not in self.problems and len(self.problems) < _PROBLEMS_MAX:
            self.problems.append(line)

    # --- what the witness tells ------------------------------------------------------------------------------------

    def stored(self, table: str, key: Key, old: Item | None, new: Item | None) -> None:
        """An item was written (new None: deleted)."""
        if table == "log":
            if key.sk == HEAD_SK:
                self._head_stored(key.pk, old, new)
            elif key.sk.startswith(INDEX_PREFIX):
                self._dirty[key.pk] = None
                if new is not None:
                    self._row_stored(key, new)
            elif key.pk.startswith("w#"):
                self._wal_item_stored(bytes.fromhex(key.sk), new)
        elif table == "catalog" and key.pk == TOPICS_PK:
            self._topic_stored(key.sk, old, new)
        elif table == "groups" and key.sk.startswith(LEASE_PREFIX):
            if new is None:
                self.commits.pop(key, None)  # the group was deleted
            elif "c" in new and new["c"] != (old or {}).get("c"):
                self._committed(key, new)

    def object_put(self, key: str, content: bytes) -> None:
        """An object was created."""
        self.uploads[key] = content

    def objects_deleted(self, keys: Sequence[str]) -> None:
        """Objects that were there are gone."""
        if keys:
            live = {piece.object_key for piece in self._live_pieces()}
            for key in keys:
                if key in live or (key.endswith(".index") and key.removesuffix(".index") + ".log" in live):
                    self.problem(f"deleted while referred to: {key}")

    def settled(self) -> None:
        """A call is over: what it changed must be whole."""
        for pk in self._dirty:
            self._check_index(pk)
        self._dirty.clear()

    def _topic_stored(self, name: str, old: Item | None, new: Item | None) -> None:
        if old is not None:
            assert isinstance(old["id"], bytes)
            self.live_topics.discard(UUID(bytes=old["id"]))
        if new is None:
            return
        assert isinstance(new["id"], bytes) and isinstance(new["c"], dict)
        topic_id = UUID(bytes=new["id"])
        self.live_topics.add(topic_id)
        self.topic_names[topic_id] = name
        self.configs[topic_id].append((self._clock.now_ms(), {key: str(value) for key, value in new["c"].items()}))

    # --- heads and rows --------------------------------------------------------------------------------------------

    def _head_stored(self, pk: str, old: Item | None, new: Item | None) -> None:
        if pk in self.gone:
            return  # a late creation may bring back a head of a deleted topic: nobody looks for it there
        if new is None:
            self.gone.add(pk)
            self.heads.pop(pk, None)
            if partition_of(pk).topic_id in self.live_topics:
                self.problem(f"{pk}: the head of a live topic was deleted")
            return
        self.heads[pk] = new
        if old is None:
            return
        for name, meaning in _RISING.items():
            if new[name] < old[name]:
                self.problem(f"{pk}: the {meaning} fell from {old[name]!r} to {new[name]!r}")
        if new["li"] != old["li"] and new["le"] <= old["le"]:
            self.problem(f"{pk}: the leader changed within epoch {new['le']}")
        if new["ls"] > new["no"]:
            self.problem(f"{pk}: the log start {new['ls']} is past the next offset {new['no']}")
        if new["ls"] > old["ls"]:
            self.starts.append(StartMove(pk, self._clock.now_ms(), new["ls"], self.caller))
        if new["tb"] != old["tb"] or new["ls"] != old["ls"]:
            self._dirty[pk] = None
        counts = [_COUNT.unpack_from(packed, _COUNT_AT)[0] for packed in new["t"]]
        if new["tb"] + sum(counts) != new["no"]:
            self.problem(f"{pk}: the tail ends at {new['tb'] + sum(counts)}, the next offset is {new['no']}")
        self._entered(pk, new["no"] - old["no"], list(zip(new["t"], counts, strict=True)))

    def _entered(self, pk: str, grown: int, tail: list[tuple[bytes, int]]) -> None:
        """Note the entries at the end of the tail that make up what the log grew by."""
        end = self.heads[pk]["no"]
        assert isinstance(end, int)
        fresh: list[tuple[int, bytes]] = []
        while grown > 0 and tail:
            packed, count = tail.pop()
            end, grown = end - count, grown - count
            fresh.append((end, packed))
        if grown:
            self.problem(f"{pk}: the log grew by other than whole entries")
        for base_offset, packed in reversed(fresh):
            piece = entry_piece(base_offset, decode_tail_entry(packed))
            place = packed[:30]  # version, flags, object id, position, length, count: which bytes they are
            if place in self._seen[pk]:
                self.problem(f"{pk}: the entry at {base_offset} entered a second time")
            self._seen[pk].add(place)
            if not self._has_bytes(piece):
                self.problem(f"{pk}: the entry at {base_offset} entered without its bytes")
            self.truth[pk].append((base_offset, packed))

    def _row_stored(self, key: Key, new: Item) -> None:
        if key.pk not in self.heads:
            return
        row = decode_index_row(index_base_offset(key.sk), new)
        if row.segment_id is None:
            return
        partition = partition_of(key.pk)
        [piece] = row_pieces(partition, row)
        if not self.has_object(piece.object_key) or not self.has_object(
            index_key(partition, row.base_offset, row.segment_id)
        ):
            self.problem(f"{key.pk}: the row at {row.base_offset} names a segment that is not there")

    def _check_index(self, pk: str) -> None:
        head = self.heads.get(pk)
        if head is None:
            return
        position, tail_base = head["ls"], head["tb"]
        assert isinstance(position, int) and isinstance(tail_base, int)
        previous = None
        for sk, item in sorted(self.log_rows(pk).items()):
            if not sk.startswith(INDEX_PREFIX):
                continue
            base, end = index_base_offset(sk), item["n"]
            if end <= position or base >= tail_base:
                continue
            if previous is not None and base < previous:
                self.problem(f"{pk}: index rows overlap at {base}: the one before ends at {previous}")
            if base > position:
                self.problem(f"{pk}: the index has a gap from {position} to {base}")
            position = previous = end
        if position < tail_base:
            self.problem(f"{pk}: the index ends at {position}, the tail begins at {tail_base}")

    # --- bytes ------------------------------------------------------------------------------------------------------

    def _wal_item_stored(self, object_id: bytes, new: Item | None) -> None:
        if new is not None:
            assert isinstance(new["d"], bytes)
            self.uploads[object_id] = new["d"]
            self._live_items.add(object_id)
            return
        self._live_items.discard(object_id)
        if any(piece.item_id == object_id for piece in self._live_pieces()):
            self.problem(f"deleted while referred to: WAL item {object_id.hex()}")

    def _has_bytes(self, piece: Piece) -> bool:
        if piece.item_id is not None:
            return piece.item_id in self._live_items
        return self.has_object(piece.object_key)

    def _live_pieces(self) -> Iterator[Piece]:
        """Everything that a reader may be sent to."""
        for pk, head in self.heads.items():
            start, offset, tail_base = head["ls"], head["tb"], head["tb"]
            assert isinstance(start, int) and isinstance(offset, int) and isinstance(tail_base, int)
            for sk, item in self.log_rows(pk).items():
                if sk.startswith(INDEX_PREFIX) and item["n"] > start and index_base_offset(sk) < tail_base:
                    yield from row_pieces(partition_of(pk), decode_index_row(index_base_offset(sk), item))
            assert isinstance(head["t"], list)
            for packed in head["t"]:
                assert isinstance(packed, bytes)
                entry = decode_tail_entry(packed)
                yield entry_piece(offset, entry)
                offset += entry.offset_count

    # --- groups -----------------------------------------------------------------------------------------------------

    def _committed(self, key: Key, new: Item) -> None:
        lease = decode_lease(new)
        assert lease.committed is not None
        commit = Commit(lease.committed.metadata, lease.owner, lease.epoch, lease.committed.offset)
        before = self.commits[key]
        where = f"{key.pk} {key.sk}"
        # Actors sign their commits by metadata: a member with its id, a simple consumer with "".
        if commit.committer != (commit.owner or ""):
            self.problem(f"{where}: {commit.committer!r} committed what {commit.owner!r} owns")
        if before and commit.offset < before[-1].offset:
            self.problem(f"{where}: the commit went back from {before[-1].offset} to {commit.offset}")
        if before and before[-1].committer != commit.committer and commit.lease_epoch < before[-1].lease_epoch:
            self.problem(f"{where}: {commit.committer!r} committed under an older grant than {before[-1].committer!r}")
        self.commits[key].append(commit)


def partition_of(pk: str) -> PartitionId:
    """The partition whose items have this `pk`."""
    topic_id, number = pk.split("#")
    return PartitionId(UUID(topic_id), int(number))
