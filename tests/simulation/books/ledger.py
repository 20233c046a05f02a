"""The ledger: what was truly applied to the store, and what must hold after every single write.

It keeps what the store forgets: every entry that ever entered a log with its offset, every byte that was ever uploaded,
every commit. From these it knows the *true log* of a partition, whatever merges, compactions and deletions did later.

Checked at once, at every write:

* a head that partitions share is looked at as the heads of these partitions (shared_book.py)
* a head's tail and its producers are bounded, and no write is one that the store never takes
* a head only moves forward: next offset, log start, tail base, both floors, leader epoch; a leader only changes with it
* next offset = tail base + what the tail holds; an entry enters once, and its bytes are there
* the index is dense from the log start to the tail base, without overlaps: a reader sees all of it at every moment
* what enters under a gateway's leadership is sent by the one process that took that epoch
* nothing that a live row or tail refers to is deleted
* rows say what entered, and what their floors promise (row_book.py); producers are remembered (producer_book.py)
* what enters is above the floors that its head had: nobody has given it up, and no search has passed it over
* transactional ids and what is pending (transaction_book.py)
* compaction drops nothing too young, and tombstones in their time (time_book.py)
* maintenance sweeps, clears up and compacts as it promises (upkeep_book.py)
* a commit is made by the partition's owner, or a classic group's member, and does not go back
* a consumer group's members and leases agree, and keep to the rules of their protocol (group_book.py)
* a write that came again, late, would change nothing that it must not (late_book.py, late_rules.py)
* whoever is refused learns from what is there (futile_book.py)
* who searches for an append whose answer was lost finds it (search_book.py)
* what a producer is told of its batch stays true (answer_book.py)
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from odradek.adapters.expressions import NOTHING, State
from odradek.engine.catalog.sweep_floor import SWEEP_FLOOR_KEY
from odradek.engine.compaction.state import decode_state
from odradek.engine.groups.items import GROUP_SK, MEMBER_PREFIX
from odradek.engine.groups.leases import LEASE_PREFIX, decode_lease
from odradek.engine.partition.head import NO_FLOOR
from odradek.engine.partition.index_row import IndexRow, decode_index_row
from odradek.engine.partition.shared_head import PAGE_PREFIX
from odradek.engine.read.log_reader import Piece, entry_piece
from odradek.errors import FormatError
from odradek.format.item_keys import (
    CLEAN_SK,
    DELETED_TOPICS_PK,
    HEAD_SK,
    INDEX_PREFIX,
    LEASE_SK,
    PRODUCER_PREFIX,
    SHARE_PARTITION_PREFIX,
    TOPICS_PK,
    TRANSACTION_PREFIX,
    TRANSACTIONAL_IDS_PK,
    group_pk,
    index_base_offset,
    index_sk,
    partition_pk,
)
from odradek.format.object_keys import segment_key, wal_key
from odradek.format.offset_index import decode_offset_index
from odradek.format.parquet.segment import read_columnar, verify_columnar
from odradek.format.record_batch import decode_batches
from odradek.format.tail_entry import decode_tail_entry
from odradek.limits import PRODUCERS_IN_HEAD_MAX, SPILL_ENTRIES_MAX
from odradek.model.topic_partition import PartitionId, partitions_per_head
from odradek.ports.clock import Clock
from odradek.ports.table import Item, Key

from tests.simulation.books.answer_book import AnswerBook
from tests.simulation.books.classic_book import ClassicBook, is_early, is_signed
from tests.simulation.books.futile_book import FutileBook
from tests.simulation.books.group_book import RESET, GroupBook, foreign_commit
from tests.simulation.books.history import identity
from tests.simulation.books.items import (
    live_pieces,
    own_leases,
    partition_of,
    partition_of_object,
    segment_objects,
    upload_id,
)
from tests.simulation.books.late_book import LateBook
from tests.simulation.books.late_rules import RISING, LateRules
from tests.simulation.books.notes import Commit, Entered, LeaderEpoch, StartMove
from tests.simulation.books.producer_book import ProducerBook, is_shared
from tests.simulation.books.row_book import RowBook
from tests.simulation.books.search_book import Rows, SearchBook
from tests.simulation.books.share_book import ShareBook
from tests.simulation.books.shared_book import SharedBook
from tests.simulation.books.time_book import Compactable, TimeBook
from tests.simulation.books.transaction_book import TransactionBook
from tests.simulation.books.upkeep_book import UpkeepBook
from tests.simulation.store.redelivery import is_delivered_again

_COUNT = struct.Struct(">I")
_COUNT_AT = 26  # of the offset count in a packed tail entry
_PLACE_BYTES = 30  # version, flags, object id, position, length, count: which bytes they are
_PROBLEMS_MAX = 50
# What two spills take away and producers send meanwhile; what the setting allows with what one spill brings in.
TAIL_ENTRIES_BOUND = 2 * SPILL_ENTRIES_MAX + 100
PRODUCERS_BOUND = PRODUCERS_IN_HEAD_MAX + SPILL_ENTRIES_MAX
WAL_ITEMS_PREFIX = "w#"


class Ledger:
    """The witness's book.

    Attributes:
        problems: what was wrong, in the order of its happening.
        truth: per partition key, every entry that entered its log, in order.
        uploads: every WAL item (by object id) and object (by key) that was ever written.
        gone: partitions whose head was deleted.
        returned: those of them whose head a creation that came late brought back.
        epochs: per partition key, every leader epoch after the first.
        starts: every rise of a log start.
        live_items: WAL items that are there, with the time of their arrival, ms.
        live_topics: ids of topics that are in the catalog.
        late_topics: ids of deleted topics that got an object when maintenance had forgotten them.
        revived: names of deleted topics that came back without heads, by a creation that was repeated and arrived late.
        topic_names, configs: of every topic id that there ever was; configurations with the time of their change, ms.
        commits: per lease, in the order of their application.
        shares: windows of share groups.
        classic: groups of the classic protocol.
        groups: groups of the consumer protocol.
        times: what compaction drops, and when.
        upkeep: what maintenance leaves behind.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.caller = ""
        self.named_files: set[str] = set()  # Parquet files that rows name or have named
        self.is_transaction = False  # whether the call is one over the tables: an atomic commit asks no leader
        self.is_told = True  # whether who made the call gets its answer
        self.problems: list[str] = []
        self.truth: dict[str, list[Entered]] = defaultdict(list)
        self.heads: dict[str, Item] = {}
        self.gone: set[str] = set()
        self.returned: set[str] = set()
        self.epochs: dict[str, list[LeaderEpoch]] = defaultdict(list)
        self.uploads: dict[bytes | str, bytes] = {}
        self.starts: list[StartMove] = []
        self.live_topics: set[UUID] = set()
        self.revived: set[str] = set()
        self.late_topics: set[UUID] = set()
        self._forgotten_topics: set[UUID] = set()
        self._deleted_topics: set[UUID] = set()
        self.topic_names: dict[UUID, str] = {}
        self.partition_counts: dict[UUID, int] = {}
        self.configs: dict[UUID, list[tuple[int, dict[str, str]]]] = defaultdict(list)
        self.commits: dict[Key, list[Commit]] = defaultdict(list)
        self.answers = AnswerBook(self.problem)
        self.shares = ShareBook(self.problem, clock, self)
        self.classic = ClassicBook(self.problem)
        self.groups = GroupBook(self.problem, lambda: is_delivered_again(self.caller))
        self.times = TimeBook(self.problem, clock)
        self.upkeep = UpkeepBook(self.problem, clock, lambda key: self.has_object(key))
        self._rows = RowBook(self.problem)
        self._transactions = TransactionBook(self.problem)
        self._producers = ProducerBook(
            self.problem, lambda pk, sk: self.log_rows(pk).get(sk), self._transactions.is_transactional
        )
        self.state_of: Callable[[str, Key], State] = lambda table, key: NOTHING
        self.late = LateBook(
            self.problem, lambda table, key: self.state_of(table, key), LateRules(self, self._producers).why_not
        )
        self.futile = FutileBook(self.problem, lambda table, key: self.state_of(table, key))
        self.seen_rows: Callable[[str], tuple[Rows, bool]] = lambda pk: ({}, True)
        self.search = SearchBook(self.problem, lambda pk: self.seen_rows(pk))
        self._records: dict[str, list[Compactable]] = defaultdict(list)
        self._decoded: dict[str, int] = defaultdict(int)
        self.log_rows: Callable[[str], Mapping[str, Any]] = lambda pk: {}
        self.has_object: Callable[[str], bool] = lambda key: True
        self.longest_tail = 0
        self._call = 0
        self.shared = SharedBook(self)
        self.live_items: dict[bytes, int] = {}
        self._seen: dict[str, set[bytes]] = defaultdict(set)
        self._dirty: dict[str, None] = {}

    def problem(self, text: str) -> None:
        """Something is wrong; the same thing is said once."""
        line = f"{text} (by {self.caller})"
        if line not in self.problems and len(self.problems) < _PROBLEMS_MAX:
            self.problems.append(line)

    def log_start(self, partition: PartitionId) -> int:
        """Return the start of the partition's log; 0 without a log."""
        return self.heads.get(partition_pk(partition), {}).get("ls", 0)  # type: ignore[return-value]

    def newest_epoch(self, partition: PartitionId, producer_id: int) -> int:
        """The epoch of the producer's last batch in the log; -1 where the log need not know the producer."""
        return self._producers.newest_epoch(partition_pk(partition), producer_id)

    def is_live(self, topic_id: UUID) -> bool:
        """Return True if the topic is in the catalog."""
        return topic_id in self.live_topics

    def is_readable(self, pk: str) -> bool:
        """Return True if readers may come to the partition: it has a head, and its topic is in the catalog."""
        return pk in self.heads and partition_of(pk).topic_id in self.live_topics

    def taker(self, pk: str) -> str | None:
        """The process that took the partition's leader epoch; None for the first epoch."""
        return self.epochs[pk][-1].caller if self.epochs[pk] else None

    def has_entered(self, pk: str, packed: bytes) -> bool:
        """Return True if the entry, of the same bytes of the same upload, has entered the log."""
        return packed[:_PLACE_BYTES] in self._seen[pk]

    def was_compacted(self, topic_id: UUID) -> bool:
        """Return True if its cleanup policy was ever `compact`."""
        return any("compact" in config.get("cleanup.policy", "") for _, config in self.configs[topic_id])

    # --- what the witness tells ------------------------------------------------------------------------------------

    def stored(self, table: str, key: Key, old: Item | None, new: Item | None) -> None:
        """An item was written (new None: deleted)."""
        self.late.changed(table, key)
        if table == "log":
            if key.sk == HEAD_SK and partition_of(key.pk).shares_head:
                self.shared.head_stored(partition_of(key.pk), new)
            elif key.sk == HEAD_SK:
                self.head_stored(key.pk, old, new)
            elif key.sk.startswith(PAGE_PREFIX):
                self.shared.page_stored(key, new)
            elif key.sk.startswith(INDEX_PREFIX):
                self._dirty[key.pk] = None
                self._row_removed(key, old, new)
                if new is not None:
                    self._row_stored(key, new)
            elif key.sk == LEASE_SK and new is not None and partition_of(key.pk).topic_id in self.live_topics:
                self.upkeep.lease_stored(key.pk, old, new, self.caller, lambda: self._named(key.pk))
            elif key.sk == CLEAN_SK and new is not None and key.pk in self.heads:
                self._compaction_stored(key.pk, decode_state(new).first_dirty)
            elif key.sk.startswith(PRODUCER_PREFIX):
                if key.pk in self.heads:
                    self._producer_kept(key, old, new)
                    self._producer_row_stored(key, is_gone=new is None)
            elif key.pk.startswith(WAL_ITEMS_PREFIX):
                self._wal_item_stored(bytes.fromhex(key.sk), new)
            elif key.pk.startswith(TRANSACTION_PREFIX):
                self._transactions.pending_stored(key, old, new)
        elif table == "catalog" and key.pk == TRANSACTIONAL_IDS_PK:
            self._transactions.row_stored(key, new)
        elif table == "catalog" and key.pk == TOPICS_PK:
            self._topic_stored(key.sk, old, new)
        elif table == "catalog" and key.pk == DELETED_TOPICS_PK:
            if new is None:
                self._forgotten_topics.add(UUID(key.sk))
        elif table == "groups" and key.sk.startswith(SHARE_PARTITION_PREFIX):
            self.shares.stored(key, old, new, self.caller)
        elif table == "groups" and key.sk == GROUP_SK:
            self.classic.stored(key, new, self.caller)
            self.groups.group_stored(key, new)
        elif table == "groups" and key.sk.startswith(MEMBER_PREFIX):
            self.groups.member_stored(key, new)
        elif table == "groups" and key.sk.startswith(LEASE_PREFIX):
            for own, before, after in own_leases(key, old, new):
                self.groups.lease_stored(own, before, after)
                if after is None:
                    self.commits.pop(own, None)  # the group, or the offset, was deleted
                elif "c" in after and after["c"] != (before or {}).get("c"):
                    self._committed(own, after)

    def object_put(self, key: str, content: bytes) -> None:
        """An object was created."""
        self.uploads[key] = content
        if key.startswith("wal/") and self.is_told:
            self.answers.uploaded(self.caller, upload_id(key), content)
        if key.startswith("topics/") and (topic_id := UUID(key.split("/")[1])) in self._forgotten_topics:
            self.late_topics.add(topic_id)
        if key.startswith("topics/"):
            self.upkeep.segment_put(partition_of_object(key), key)

    def maintenance_epoch(self, key: str) -> int:
        """The epoch of the maintenance lease of the partition that an object belongs to; 0: it belongs to none."""
        lease = self.log_rows(partition_of_object(key)).get(LEASE_SK) if key.startswith("topics/") else None
        return 0 if lease is None else lease["e"]

    def _named(self, pk: str) -> set[str]:
        """The objects of segments that rows of the partition refer to."""
        rows = ((Key(pk, sk), item) for sk, item in self.log_rows(pk).items() if sk.startswith(INDEX_PREFIX))
        return {name for key, item in rows for name in segment_objects(key, item)}

    def objects_deleted(self, keys: Sequence[str]) -> None:
        """Objects that were there are gone."""
        if keys:
            live, _ = self.referenced()
            for key in keys:
                if key in live:
                    self.problem(f"deleted while referred to: {key}")
                if key.startswith("wal/"):
                    self._swept(upload_id(key))

    def settled(self) -> None:
        """A call is over: what it changed must be whole."""
        self._call += 1
        for pk in self._dirty:
            self._check_index(pk)
            if self.is_readable(pk) and not partition_of(pk).shares_head:
                self.search.changed(pk, self.truth[pk])
        self._dirty.clear()
        self.groups.settled()
        self.late.settled()

    def _topic_stored(self, name: str, old: Item | None, new: Item | None) -> None:
        if old is not None:
            assert isinstance(old["id"], bytes)
            self.live_topics.discard(UUID(bytes=old["id"]))
            if new is None:
                self._deleted_topics.add(UUID(bytes=old["id"]))
        if new is None:
            return
        assert isinstance(new["id"], bytes)
        assert isinstance(new["c"], dict)
        topic_id = UUID(bytes=new["id"])
        if topic_id in self._deleted_topics:
            self.revived.add(name)
            return
        self.live_topics.add(topic_id)
        self.topic_names[topic_id] = name
        self.partition_counts[topic_id] = int(new["n"])  # type: ignore[call-overload]
        if partitions_per_head(topic_id) > 1:
            self.shared.topic_stored(topic_id)
        floor = (self.state_of("catalog", SWEEP_FLOOR_KEY).item or {}).get("f", NO_FLOOR)
        for number in range(0 if old is None else int(old["n"]), int(new["n"])):  # type: ignore[call-overload]
            pk = partition_pk(PartitionId(topic_id, number))
            if pk in self.heads and self.heads[pk]["wf"] < floor:  # type: ignore[operator]
                self.problem(f"{pk}: the partition appears without the sweep's floor")
        self.configs[topic_id].append((self._clock.now_ms(), {key: str(value) for key, value in new["c"].items()}))

    # --- heads and rows --------------------------------------------------------------------------------------------

    def _head_is_bounded(self, pk: str, head: Item) -> None:
        """Check the bound of an append's cost: with every spill refused, a tail would hold every batch ever sent."""
        tail, producers = len(head["t"]), len(head["p"])  # type: ignore[arg-type]
        self.longest_tail = max(self.longest_tail, tail)
        if tail > TAIL_ENTRIES_BOUND:
            self.problem(f"{pk}: a tail of more than {TAIL_ENTRIES_BOUND} entries")
        if producers > PRODUCERS_BOUND:
            self.problem(f"{pk}: more than {PRODUCERS_BOUND} producers in a head")

    def head_stored(self, pk: str, old: Item | None, new: Item | None) -> None:
        if pk in self.gone:
            # Only who asked for the topic before its deletion, and froze, comes to such a head.
            self.returned.update([pk] if new is not None else [])
            return
        if new is None:
            self.gone.add(pk)
            self.heads.pop(pk, None)
            if partition_of(pk).topic_id in self.live_topics:
                self.problem(f"{pk}: the head of a live topic was deleted")
            return
        self.heads[pk] = new
        if old is None:
            return
        if not partition_of(pk).shares_head:
            self._head_is_bounded(pk, new)
            self.search.head_stored(pk, new)
        for name, meaning in RISING.items():
            if new[name] < old[name]:
                self.problem(f"{pk}: the {meaning} fell from {old[name]!r} to {new[name]!r}")
        if new["li"] != old["li"] and new["le"] <= old["le"]:
            self.problem(f"{pk}: the leader changed within epoch {new['le']}")
        if new["le"] != old["le"] and new["es"] != old["no"]:
            self.problem(f"{pk}: epoch {new['le']} is said to begin at {new['es']}, not at {old['no']}")
        if new["le"] != old["le"]:
            self.epochs[pk].append(LeaderEpoch(new["le"], new["li"], old["no"], self.caller))  # type: ignore[arg-type]
        if new["no"] != old["no"] and new["li"] and not self.is_transaction:
            taker = self.taker(pk)
            if taker != self.caller:
                self.problem(f"{pk}: an append under epoch {new['le']}, which {taker} took")
        if new["ls"] > new["no"]:
            self.problem(f"{pk}: the log start {new['ls']} is past the next offset {new['no']}")
        if new["ls"] > old["ls"]:
            move = StartMove(
                pk, self._clock.now_ms(), old["ls"], new["ls"], new["tb"], self.caller, len(self.truth[pk])
            )  # type: ignore[arg-type]
            self.starts.append(move)
        if (new["tb"], new["ls"], new["mo"]) != (old["tb"], old["ls"], old["mo"]):
            self._dirty[pk] = None
        counts = [_COUNT.unpack_from(packed, _COUNT_AT)[0] for packed in new["t"]]
        if new["tb"] + sum(counts) != new["no"]:
            self.problem(f"{pk}: the tail ends at {new['tb'] + sum(counts)}, the next offset is {new['no']}")
        self._entered(pk, old, new["no"] - old["no"], list(zip(new["t"], counts, strict=True)))
        self._producers.head_stored(pk, old, new)

    def _entered(self, pk: str, old: Item, grown: int, tail: list[tuple[bytes, int]]) -> None:
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
            entry = decode_tail_entry(packed)
            piece = entry_piece(base_offset, entry)
            self._rows.entered(pk, base_offset, entry)
            self._producers.entered(pk, base_offset, entry)
            self.answers.entered(pk, base_offset, entry)
            if self.has_entered(pk, packed):
                self.problem(f"{pk}: the entry at {base_offset} entered a second time")
            self._seen[pk].add(packed[:_PLACE_BYTES])
            if entry.commit_ms <= old["sf"]:  # type: ignore[operator]
                self.problem(f"{pk}: the entry at {base_offset} entered with a commit time below the spill floor")
            if entry.object_id < old["wf"]:  # type: ignore[operator]
                self.problem(f"{pk}: the entry at {base_offset} entered below the sweep floor")
            if not self._has_bytes(piece):
                self.problem(f"{pk}: the entry at {base_offset} entered without its bytes")
            self.truth[pk].append(Entered(base_offset, packed, self._call))

    def _row_stored(self, key: Key, new: Item) -> None:
        if key.pk not in self.heads:
            return
        row = self._row(key.pk, index_base_offset(key.sk), new)
        if row.lacks_entries:
            self.shared.lacking(key.pk, row)
            return
        self._rows.stored(key.pk, row)
        if row.segment_id is None:
            return
        partition = partition_of(key.pk)
        if row.is_columnar:
            self.named_files.add(segment_objects(key, new)[0])
        if not all(self.has_object(name) for name in segment_objects(key, new)):
            self.problem(f"{key.pk}: the row at {row.base_offset} names a segment that is not there")
        elif row.is_columnar:
            log, index = (self.uploads[name] for name in segment_objects(key, new))
            try:
                verify_columnar(log, decode_offset_index(index))
            except FormatError as damaged:
                self.problem(f"{key.pk}: the file of the row at {row.base_offset} is damaged: {damaged}")
        elif self.was_compacted(partition.topic_id):
            content = self.uploads[segment_key(partition, row.base_offset, row.segment_id)]
            configs = [config for _, config in self.configs[partition.topic_id]]
            span = row.base_offset, row.end_offset
            self.times.segment_stored(key.pk, span, content, self.log_start(partition), self.records(key.pk), configs)

    def _row_removed(self, key: Key, old: Item | None, new: Item | None) -> None:
        """Note the objects of a segment that no row names any more."""
        if old is None or key.pk not in self.heads:
            return
        before = segment_objects(key, old)
        if before and (new is None or segment_objects(key, new) != before):
            self.upkeep.lost_its_row(key.pk, before)

    def _compaction_stored(self, pk: str, first_dirty: int) -> None:
        def contents() -> Iterator[bytes]:
            for base, item in self._live_rows(pk):
                if item["k"] == "w" or base >= first_dirty:
                    continue
                content, index = (self.uploads[name] for name in segment_objects(Key(pk, index_sk(base)), item))
                yield content if item["k"] == "s" else read_columnar(content, decode_offset_index(index))

        self.upkeep.compacted(pk, first_dirty, self.log_start(partition_of(pk)), contents)

    def records(self, pk: str) -> list[Compactable]:
        """Every record that entered the partition; decoded as it is asked for."""
        records = self._records[pk]
        for entered in self.truth[pk][self._decoded[pk] :]:
            entry = decode_tail_entry(entered.packed)
            content = self.uploads[entry.object_id if entry.is_item else wal_key(entry.object_id)]
            batch = content[entry.position : entry.position + entry.length]
            records += (
                Compactable(entered.base_offset + r.offset, r.key, r.value is None, r.timestamp_ms, identity(r))
                for r in decode_batches(batch)
            )
        self._decoded[pk] = len(self.truth[pk])
        return records

    def _live_rows(self, pk: str) -> list[tuple[int, Any]]:
        """The rows that readers go by, with their base offsets; a spilled one below the merged offset is a ghost."""
        merged = self.heads[pk]["mo"]
        rows = ((index_base_offset(sk), item) for sk, item in self.log_rows(pk).items() if sk.startswith(INDEX_PREFIX))
        return sorted(((base, item) for base, item in rows if item["k"] != "w" or base >= merged), key=lambda r: r[0])

    def live_rows(self, pk: str) -> list[IndexRow]:
        """The rows that readers go by, oldest first; also those of a spill under way."""
        return [self._row(pk, base, item) for base, item in self._live_rows(pk)]

    def _row(self, pk: str, base_offset: int, item: Item) -> IndexRow:
        """The row with its entries, as far as pages have them."""
        row = decode_index_row(base_offset, item)
        return self.shared.with_entries(partition_of(pk), row) if row.lacks_entries else row

    def _check_index(self, pk: str) -> None:
        head = self.heads.get(pk)
        if head is None or partition_of(pk).topic_id not in self.live_topics:
            return
        position: int = head["ls"]  # type: ignore[assignment]
        tail_base: int = head["tb"]  # type: ignore[assignment]
        previous = None
        for base, item in self._live_rows(pk):
            end = item["n"]
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

    def _producer_kept(self, key: Key, old: Item | None, new: Item | None) -> None:
        is_early = new is None and old is not None and not self.upkeep.is_silent(old)
        if is_early and self.is_readable(key.pk) and self.caller not in self.shares.jumped:
            self.problem(f"{key.pk}: {key.sk} was forgotten before it had been silent for long enough")

    def _producer_row_stored(self, key: Key, *, is_gone: bool) -> None:
        head_id, producer_id = partition_of(key.pk), int(key.sk.removeprefix(PRODUCER_PREFIX))
        sharing = [pk for pk in self.heads if partition_of(pk).head_id == head_id] if is_shared(key.pk) else [key.pk]
        for pk in sharing:
            self._producers.row_stored(pk, producer_id, is_gone=is_gone)

    def _wal_item_stored(self, object_id: bytes, new: Item | None) -> None:
        if new is not None:
            assert isinstance(new["d"], bytes)
            self.uploads[object_id] = new["d"]
            if self.is_told:
                self.answers.uploaded(self.caller, object_id, new["d"])
            self.live_items.setdefault(object_id, self._clock.now_ms())
            return
        self.live_items.pop(object_id, None)
        self._swept(object_id)
        if any(piece.item_id == object_id for piece in self._live_pieces()):
            self.problem(f"deleted while referred to: WAL item {object_id.hex()}")

    def _swept(self, object_id: bytes) -> None:
        live = ((pk, head["wf"]) for pk, head in self.heads.items() if self._is_listed(partition_of(pk)))
        self.upkeep.swept(object_id, live, is_clock_right=self.caller not in self.shares.jumped)  # type: ignore[arg-type]

    def _is_listed(self, partition: PartitionId) -> bool:
        """Return True if the topic has the partition; a growth that was cut short leaves heads beyond the last one."""
        is_live = partition.topic_id in self.live_topics
        return is_live and partition.partition < self.partition_counts[partition.topic_id]

    def _has_bytes(self, piece: Piece) -> bool:
        if piece.item_id is not None:
            return piece.item_id in self.live_items
        return self.has_object(piece.object_key)

    def referenced(self) -> tuple[set[str], set[bytes]]:
        """Keys of objects and ids of WAL items that a reader may be sent to."""
        objects: set[str] = set()
        items: set[bytes] = set()
        for piece in self._live_pieces():
            if piece.item_id is not None:
                items.add(piece.item_id)
            else:
                objects |= {piece.object_key, piece.object_key.rpartition(".")[0] + ".index"}
        return objects, items

    def _live_pieces(self) -> Iterator[Piece]:
        """Everything that a reader may be sent to."""
        for pk, head in self.heads.items():
            if partition_of(pk).topic_id not in self.live_topics:
                continue
            offset: int = head["tb"]  # type: ignore[assignment]
            for base, item in self._live_rows(pk):
                if item["n"] > head["ls"] and base < offset:
                    yield from live_pieces(partition_of(pk), self._row(pk, base, item))
            for packed in head["t"]:  # type: ignore[union-attr]
                entry = decode_tail_entry(packed)  # type: ignore[arg-type]
                yield entry_piece(offset, entry)
                offset += entry.offset_count

    # --- groups -----------------------------------------------------------------------------------------------------

    def _committed(self, key: Key, new: Item) -> None:
        lease = decode_lease(new)
        assert lease.committed is not None
        commit = Commit(lease.committed.metadata, lease.owner, lease.epoch, lease.committed.offset, self._call)
        before = self.commits[key]
        where = f"{key.pk} {key.sk}"
        # Actors sign their commits by metadata; a classic member for its generation: such a group's leases have no
        # owner.
        if is_signed(commit.committer) and commit.owner is None:
            self.classic.committed(key.pk.removeprefix(group_pk("")), commit.committer)
        elif foreign := foreign_commit(commit.committer, commit.owner, commit.lease_epoch):
            self.problem(f"{where}: {foreign}")
        # A commit that is delivered again, late, is the same to the group as one that goes back on purpose; so is one
        # of a member that does not know yet that the partition has become another's.
        goes_back = bool(before) and commit.offset < before[-1].offset
        is_meant = is_early(commit.committer) or commit.committer == RESET
        if goes_back and not is_delivered_again(self.caller) and not is_meant:
            self.problem(f"{where}: the commit went back from {before[-1].offset} to {commit.offset}")
        self.commits[key].append(commit)
