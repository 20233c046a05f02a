"""The decisions about an append: pure and total.

An append is first tried blind: the condition contains all requirements, and nothing is read. If it is refused, the
refusal contains the head, which `after_refusal` examines in this order:

    1. the entry is in the tail                         an earlier attempt was applied: success
    2. the spill floor has passed the commit time       look in the newest index rows; not there: it never will be, so a
                                                        new commit time is safe (docs/decisions/0002)
    3. another leader, or another epoch of ours         `NotLeader`: who leads, and may we take over?
    4. the sweep floor has passed the object            upload again under a new id
    5. sequences                                        `decide_sequences`: it may be there already
    6. another next offset than expected                the conditional produce has lost
    7. the topic has grown (head_append.py)             its keys may belong to other partitions now

Sequences follow KIP-98 and KIP-360 (Apache Kafka's ProducerStateManager). `decide_sequences` with no head gives the
blind clause. For a batch of a producer whose last epoch here is E and whose next sequence is S:

    epoch below E                                       INVALID_PRODUCER_EPOCH
    epoch above E, or nothing known of the producer     starts at 0; another sequence misses its predecessor
    one of the last five batches, same first and last   a duplicate: its original offset
    sequence S                                          in order; sequences wrap from 2^31 - 1 to 0
    ahead of S                                          misses its predecessor: `Ahead`
    wholly before the batches that are remembered       DUPLICATE_SEQUENCE_NUMBER: it is in the log, the offset unknown
    anything else behind S                              OUT_OF_ORDER_SEQUENCE_NUMBER: it was never sent like this

A log forgets a producer that is silent for long (producer_expiry.py), and a recreated topic knows none. Apache Kafka
accepts any first sequence of an unknown producer. So does `accept_unknown`, once the caller is certain that no
predecessor is on its way (append/order.py). Such a start is noted: an older batch is not in this log, and is
OUT_OF_ORDER_SEQUENCE_NUMBER, never a duplicate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from odradek.engine.partition.claims import FLEET_CLAIM, Claim
from odradek.engine.partition.head import PartitionHead, ProducerState, RecentBatch, next_sequence
from odradek.engine.partition.producer_places import OWN_PLACES, ProducerPlaces, SequenceClause
from odradek.engine.partition.producer_rows import UNKNOWN, EvictedProducer
from odradek.errors import ErrorCode
from odradek.format.tail_entry import TailEntry, encode_tail_entry
from odradek.limits import SEQUENCE_MAX


@dataclass(frozen=True, slots=True)
class Try:
    """Attempt the update with these clauses."""

    clauses: tuple[SequenceClause, ...] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """The append is in the log at this offset (an earlier attempt, or a duplicate of an earlier request)."""

    base_offset: int


@dataclass(frozen=True, slots=True)
class Reject:
    """The append is surely not in the log and will not be."""

    code: ErrorCode
    message: str
    next_offset: int = -1  # of a conditional produce that lost: what it should have expected


@dataclass(frozen=True, slots=True)
class Ahead:
    """A predecessor is missing and may still come (append/order.py); if it does not, reject with this."""

    rejection: Reject
    is_known: bool = True  # whether the log knows the producer


@dataclass(frozen=True, slots=True)
class NotLeader:
    """The claim is no longer the head's: get another one, or reject with this."""

    rejection: Reject


@dataclass(frozen=True, slots=True)
class ReadProducerRows:
    """These producers may have been evicted: read their rows, then decide again."""

    producer_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReadRecent:
    """The batch lies behind, and what the producer wrote of late is not all in this head: find it in pages and rows."""

    producer_id: int


@dataclass(frozen=True, slots=True)
class SearchRows:
    """The entry may have been spilled: search the index rows, then continue with a commit time above the floor."""

    floor_ms: int


@dataclass(frozen=True, slots=True)
class UploadAgain:
    """The object may have been swept."""


@dataclass(frozen=True, slots=True)
class Apart:
    """Not as a whole: some of these batches may be there, or be refused. Each is to be decided by itself."""


Verdict = Try | Applied | Reject | Ahead | NotLeader | ReadProducerRows | ReadRecent | SearchRows | UploadAgain | Apart


@dataclass(frozen=True, slots=True)
class KnownRows:
    """Producer rows read so far.

    Attributes:
        bound: the `turnover_bound` of the head that was read before them: they hold up to it.
        recent: batches of producers that were looked for below a shared head's tail.
    """

    bound: int = -1
    rows: Mapping[int, EvictedProducer] = field(default_factory=dict)
    recent: Mapping[int, Sequence[RecentBatch]] = field(default_factory=dict)

    def has_row(self, head: PartitionHead, producer_id: int) -> bool:
        """Whether a producer's row is known, as it is with this head."""
        return head.turnover <= self.bound and producer_id in self.rows

    def with_row(self, head: PartitionHead, producer_id: int, row: EvictedProducer) -> KnownRows:
        """With a row that was read after this head, and those that still hold."""
        rows = self.rows if head.turnover <= self.bound else {}
        return replace(self, bound=head.turnover_bound, rows={**rows, producer_id: row})

    def with_recent(self, producer_id: int, recent: Sequence[RecentBatch]) -> KnownRows:
        """With a producer's batches from below the tail."""
        return replace(self, recent={**self.recent, producer_id: recent})


def after_refusal(
    entries: Sequence[TailEntry],
    expected_offset: int | None,
    head: PartitionHead,
    known: KnownRows,
    claim: Claim = FLEET_CLAIM,
    *,
    accept_unknown: bool = False,
    places: ProducerPlaces = OWN_PLACES,
    chosen_by: int | None = None,
) -> Verdict:
    """Decide the next step of a refused append. See decide_sequences for `accept_unknown` and `places`.

    Args:
        chosen_by: by how many partitions of the topic the entries' keys chose this one; None: no key did.
    """
    first = entries[0]
    found = head.find(encode_tail_entry(first))
    if found is not None:
        return Applied(found)
    if head.spill_floor_ms >= first.commit_ms:
        return SearchRows(head.spill_floor_ms)
    if not claim.holds(head):
        return NotLeader(not_leader(head))
    if head.sweep_floor > first.object_id:
        return UploadAgain()
    verdict = decide_sequences(entries, head, known, accept_unknown=accept_unknown, places=places)
    if isinstance(verdict, Try) and expected_offset is not None and head.next_offset != expected_offset:
        return Reject(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"the partition's next offset is {head.next_offset}, not {expected_offset} as expected: "
            "read up to it and decide again",
            head.next_offset,
        )
    if isinstance(verdict, (Try, Ahead)) and chosen_by is not None and head.fence > chosen_by:
        return Reject(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"the topic has grown to {head.fence} partitions, and the keys chose this one of {chosen_by}; nothing was "
            "appended: refresh metadata and choose again",
        )
    return verdict


def as_a_whole(verdict: Verdict, entries: Sequence[TailEntry], head: PartitionHead | None) -> Verdict:
    """The verdict about batches of several requests that go into the log together or not at all.

    What was decided of the first one's sequence is not true of the others: it may be a duplicate, and they are new.
    """
    if isinstance(verdict, (Reject, Ahead)):
        return Apart()
    if isinstance(verdict, Applied) and (head is None or head.find(encode_tail_entry(entries[0])) is None):
        return Apart()
    return verdict


def not_leader(head: PartitionHead) -> Reject:
    """The answer of a broker that does not lead the partition."""
    return Reject(
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        f"broker {head.leader_id} leads this partition at epoch {head.leader_epoch}: send the request to it",
    )


def decide_sequences(
    entries: Sequence[TailEntry],
    head: PartitionHead | None,
    known: KnownRows,
    *,
    accept_unknown: bool = False,
    places: ProducerPlaces = OWN_PLACES,
    there: Collection[int] = (),
) -> Verdict:
    """Decide whether the producers' sequences admit the entries, and return the conditions for the update.

    Args:
        accept_unknown: accept any first sequence of an unknown producer.
        places: where the head's item has the partition's producers.
        there: with no head: the producers that a shared head is believed to have.
    """
    clauses = []
    for chain in _chains(entries):
        for earlier, later in pairwise(chain):
            if later.base_sequence != next_sequence(earlier.base_sequence, earlier.offset_count):
                return Reject(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"the batches of producer {later.producer_id} in one request are not consecutive",
                )
        if head is None:
            verdict: SequenceClause | Verdict = _blind(chain, places, chain[0].producer_id in there)
        else:
            verdict = _informed(chain, head, known, accept_unknown, places)
            if isinstance(verdict, ReadProducerRows):  # those of the chains behind it, too, at once
                return ReadProducerRows(_unread(entries, head, known))
        if not isinstance(verdict, SequenceClause):
            return verdict
        clauses.append(verdict)
    return Try(tuple(clauses))


def _unread(entries: Sequence[TailEntry], head: PartitionHead, known: KnownRows) -> tuple[int, ...]:
    """The producers of the entries whose rows are to be read."""
    producers = dict.fromkeys(entry.producer_id for entry in entries)
    return tuple(each for each in producers if head.may_have_evicted(each) and not known.has_row(head, each))


def _chains(entries: Sequence[TailEntry]) -> list[list[TailEntry]]:
    """The entries of each idempotent producer epoch, in order."""
    chains: dict[tuple[int, int], list[TailEntry]] = {}
    for entry in entries:
        if entry.producer_id >= 0:
            chains.setdefault((entry.producer_id, entry.producer_epoch), []).append(entry)
    return list(chains.values())


def _after(chain: Sequence[TailEntry]) -> int:
    return next_sequence(chain[-1].base_sequence, chain[-1].offset_count)


def _blind(chain: Sequence[TailEntry], places: ProducerPlaces, is_there: bool) -> SequenceClause:
    first = chain[0]
    if first.base_sequence == 0:
        state = ProducerState(first.producer_epoch, _after(chain))
        return places.starts(first.producer_id, state, is_there=is_there)
    return _follows(chain, places)


def _follows(chain: Sequence[TailEntry], places: ProducerPlaces) -> SequenceClause:
    first = chain[0]
    return places.follows(first.producer_id, first.producer_epoch, first.base_sequence, _after(chain))


def _informed(
    chain: Sequence[TailEntry], head: PartitionHead, known: KnownRows, accept_unknown: bool, places: ProducerPlaces
) -> SequenceClause | Verdict:
    first = chain[0]
    producer_id = first.producer_id
    state = head.producers.get(producer_id)
    recent: Sequence[RecentBatch] = head.recent_batches(producer_id)
    in_head = state is not None
    row = UNKNOWN
    if head.may_have_evicted(producer_id):
        if not known.has_row(head, producer_id):
            return ReadProducerRows((producer_id,))
        row = known.rows[producer_id]
        state = places.evicted(row)
        recent = state.recent if state else ()
    recent = (*known.recent.get(producer_id, ()), *recent)

    if state is None:
        if first.base_sequence != 0 and not accept_unknown:
            return Ahead(
                Reject(
                    ErrorCode.UNKNOWN_PRODUCER_ID,
                    f"unknown producer {producer_id}, and its first batch has sequence "
                    f"{first.base_sequence}: start again with InitProducerId",
                ),
                is_known=False,
            )
        begun = ProducerState(first.producer_epoch, _after(chain), first_sequence=first.base_sequence)
        return places.becomes(head, producer_id, begun, row)

    if first.producer_epoch < state.epoch:
        return Reject(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer_id} has been fenced: epoch {state.epoch} is newer than {first.producer_epoch}",
        )
    if first.producer_epoch > state.epoch:
        if first.base_sequence != 0:
            return Ahead(_out_of_order(first, 0))
    else:
        for batch in recent:
            if (batch.epoch, batch.base_sequence, batch.record_count) == (
                first.producer_epoch,
                first.base_sequence,
                first.offset_count,
            ):
                return Applied(batch.base_offset)
        if first.base_sequence != state.next_sequence:
            if _is_up_to(state.next_sequence, first.base_sequence):
                return Ahead(_out_of_order(first, state.next_sequence))
            if not places.keeps_recent and producer_id not in known.recent:
                return ReadRecent(producer_id)
            oldest = next((batch for batch in recent if batch.epoch == first.producer_epoch), None)
            if oldest is not None and not _is_up_to(_after(chain), oldest.base_sequence):
                return _out_of_order(first, state.next_sequence)
            if state.first_sequence and not _is_up_to(state.first_sequence, first.base_sequence):
                return _out_of_order(first, state.next_sequence)
            return Reject(
                ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
                f"producer {producer_id} wrote sequence {first.base_sequence} earlier than its last five batches",
            )
        if in_head:
            return _follows(chain, places)
    after = ProducerState(first.producer_epoch, _after(chain))
    if first.producer_epoch == state.epoch:
        after = replace(after, recent=tuple(recent), first_sequence=state.first_sequence)
    return places.becomes(head, producer_id, after, row)


def _is_up_to(sequence: int, other: int) -> bool:
    """Return True if the sequence is the other one or before it, modulo the range of sequences."""
    return (other - sequence) % (SEQUENCE_MAX + 1) <= SEQUENCE_MAX // 2


def _out_of_order(entry: TailEntry, expected: int) -> Reject:
    return Reject(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {entry.producer_id} sent sequence {entry.base_sequence}, expected {expected}",
    )
