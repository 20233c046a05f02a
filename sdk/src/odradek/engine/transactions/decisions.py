"""The state machine of a transactional id, decided from its row: pure and total.

    state       InitProducerId     a partition or offset is added    EndTxn                    timeout
    Empty       Empty, epoch+1     Ongoing, number+1                 INVALID_TXN_STATE         -
    Ongoing     Empty, epoch+1     Ongoing                           Complete...               Empty, epoch+1
    Complete... Empty, epoch+1     Ongoing, number+1                 the same answer again     -

A producer with an older epoch is fenced. Under the second protocol (KIP-890: EndTxn 5 and later) each end bumps the
epoch, so a request that was delayed past the end of its transaction cannot affect the next one; an abort without an
open transaction bumps it too. A producer whose transaction timed out may say so once more with its former epoch: an
abort tells it the epoch that it has now, and it goes on; a commit is INVALID_TXN_STATE. Under the first protocol the
partitions of a transaction are added before they are written, and a delayed duplicate is recognized by its sequence.

The row keeps the epoch before the last bump: EndTxn with it is a repetition, and InitProducerId with it (KIP-360) comes
from the producer that the current epoch was issued to. Sources: KIP-98, KIP-360, KIP-588, KIP-890.

`follow` decides at the commit whether a partition's batches continue what its log holds of the producer. `predict`
says what offset a batch of an open transaction will have, and `keeps_told_offsets` whether the commit gives it that
offset (docs/decisions/0012).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from odradek.engine.partition.head import PartitionHead, ProducerState, next_sequence
from odradek.engine.partition.producer_places import OWN_PLACES, ProducerPlaces, SequenceClause
from odradek.engine.partition.producer_rows import UNKNOWN, EvictedProducer
from odradek.engine.transactions.items import PendingBatches, TransactionRow, TransactionState
from odradek.errors import ErrorCode, KafkaError
from odradek.format.tail_entry import TailEntry
from odradek.limits import (
    ABORTED_SEQUENCES_MAX,
    PRODUCER_EPOCH_MAX,
    SEQUENCE_MAX,
    TRANSACTION_BATCHES_PER_PARTITION_MAX,
    TRANSACTION_PLACES_MAX,
)
from odradek.model.topic_partition import PartitionId

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FreshProducerId:
    """A new producer id is needed: allocate one, then decide again with it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The transaction has ended as asked, now or at an earlier attempt: this id and epoch are valid from here on."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The open transaction is too old: fence its producer first."""


@dataclass(frozen=True, slots=True)
class End:
    """The transaction is open and may end."""


# --- InitProducerId -----------------------------------------------------------------------------------------------


def decide_init(
    row: TransactionRow | None,
    transactional_id: str,
    timeout_ms: int,
    producer_id: int,
    producer_epoch: int,
    fresh_id: int | None,
) -> TransactionRow | FreshProducerId:
    """Return the row after InitProducerId, which aborts an open transaction.

    Args:
        producer_id, producer_epoch: of a producer that wants to continue (KIP-360), else -1.
        fresh_id: an unused producer id, after FreshProducerId was returned.

    Raises KafkaError: PRODUCER_FENCED.
    """
    if row is None:
        return FreshProducerId() if fresh_id is None else TransactionRow(transactional_id, fresh_id, 0, timeout_ms)
    given = (producer_id, producer_epoch)
    if producer_id >= 0 and given != (row.producer_id, row.producer_epoch):
        if given != (row.last_producer_id, row.last_epoch) or row.is_ongoing:
            raise fenced(row)
        return replace(row, timeout_ms=timeout_ms)  # its epoch has been bumped already
    keeps_last = given if producer_id >= 0 else (-1, -1)
    return bumped(replace(row, timeout_ms=timeout_ms), TransactionState.EMPTY, keeps_last, fresh_id)


def bumped(
    row: TransactionRow, state: TransactionState, last: tuple[int, int], fresh_id: int | None
) -> TransactionRow | FreshProducerId:
    """Return the row under the next epoch, or under a new producer id if the epochs are used up."""
    producer_id, epoch = row.producer_id, row.producer_epoch + 1
    if epoch > PRODUCER_EPOCH_MAX:
        if fresh_id is None:
            return FreshProducerId()
        producer_id, epoch = fresh_id, 0
    return replace(
        _closed(row, state),
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_id=last[0],
        last_epoch=last[1],
        aborted_sequences={},
    )


def _closed(row: TransactionRow, state: TransactionState) -> TransactionRow:
    return replace(row, state=state, start_ms=-1, partitions=(), groups=(), leases=())


# --- what an open transaction takes in ----------------------------------------------------------------------------


def check_producer(row: TransactionRow | None, producer_id: int, producer_epoch: int) -> TransactionRow:
    """Return the row if the producer is the current one.

    Raises KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED.
    """
    if row is None or producer_id not in (row.producer_id, row.last_producer_id):
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"producer id {producer_id} does not belong to the transactional id: call InitProducerId again",
        )
    if (producer_id, producer_epoch) != (row.producer_id, row.producer_epoch):
        raise fenced(row)
    return row


def fenced(row: TransactionRow) -> KafkaError:
    """The error of a producer whose epoch is not the current one."""
    return KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"transactional id {row.transactional_id!r} is at epoch {row.producer_epoch} of producer "
        f"{row.producer_id}: another instance has taken over, or the transaction timed out",
    )


def decide_join(
    row: TransactionRow,
    now_ms: int,
    *,
    partitions: Sequence[PartitionId] = (),
    groups: Sequence[str] = (),
    leases: Sequence[tuple[str, PartitionId]] = (),
) -> TransactionRow:
    """Return the row with these added to its transaction, which begins with the first of them.

    Raises KafkaError: TRANSACTION_ABORTABLE if the transaction would need more items than one commit can write;
    PRODUCER_FENCED if it has timed out, since its producer will be fenced, and if the row would have to remember more
    sequences than fit.
    """
    if row.has_timed_out(now_ms):
        raise fenced(row)
    begun = row
    if not row.is_ongoing:
        begun = replace(_closed(row, TransactionState.ONGOING), number=row.number + 1, start_ms=now_ms)
    joined = replace(
        begun,
        partitions=_united(begun.partitions, partitions),
        groups=_united(begun.groups, groups),
        leases=_united(begun.leases, leases),
    )
    if len(joined.groups) > TRANSACTION_PLACES_MAX:
        raise KafkaError(
            ErrorCode.TRANSACTION_ABORTABLE,
            f"a transaction commits offsets of at most {TRANSACTION_PLACES_MAX} groups, this one of "
            f"{len(joined.groups)}: abort it and use more transactions",
        )
    if len({*joined.aborted_sequences, *joined.partitions}) > ABORTED_SEQUENCES_MAX:
        raise KafkaError(
            ErrorCode.PRODUCER_FENCED,
            f"transactional id {row.transactional_id!r} has aborted writes to {len(joined.aborted_sequences)} "
            "partitions under one epoch: start the producer again, or use one that speaks KIP-890",
        )
    places = len(joined.partitions) + len(joined.leases)
    if places > TRANSACTION_PLACES_MAX:
        raise KafkaError(
            ErrorCode.TRANSACTION_ABORTABLE,
            f"a transaction holds at most {TRANSACTION_PLACES_MAX} partitions and committed offsets together, this one "
            f"would hold {places}: abort it and write to fewer of them in one transaction",
        )
    return joined


def _united(known: tuple[T, ...], more: Sequence[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys((*known, *more)))


def check_announced(row: TransactionRow, partitions: Sequence[PartitionId] = (), groups: Sequence[str] = ()) -> None:
    """Raises KafkaError(TRANSACTION_ABORTABLE) unless these are in the open transaction (the first protocol)."""
    if not row.is_ongoing or not set(partitions) <= set(row.partitions) or not set(groups) <= set(row.groups):
        raise KafkaError(
            ErrorCode.TRANSACTION_ABORTABLE,
            "the partition or group has no open transaction: send AddPartitionsToTxn or AddOffsetsToTxn first",
        )


# --- EndTxn -------------------------------------------------------------------------------------------------------


def decide_end(
    row: TransactionRow | None, producer_id: int, producer_epoch: int, now_ms: int, *, commit: bool, bump: bool
) -> Ended | End | TimedOut:
    """Decide whether the transaction may end in this way.

    Args:
        bump: True if the end bumps the epoch (the second protocol).

    Raises KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE.
    """
    wanted = TransactionState.COMMITTED if commit else TransactionState.ABORTED
    complete = (TransactionState.COMMITTED, TransactionState.ABORTED)
    if (
        row is not None
        and row.state in complete
        and (row.last_producer_id, row.last_epoch)
        == (
            producer_id,
            producer_epoch,
        )
    ):
        if row.state is wanted:
            return Ended(row.producer_id, row.producer_epoch)
        raise _wrong_state(row, commit)
    if bump and row is not None and _was_fenced(row, producer_id, producer_epoch):
        if commit:
            raise _wrong_state(row, commit)
        return Ended(row.producer_id, row.producer_epoch)
    row = check_producer(row, producer_id, producer_epoch)
    if row.is_ongoing:
        return TimedOut() if row.has_timed_out(now_ms) else End()
    if bump and not commit:
        return End()
    if not bump and row.state is wanted:
        return Ended(row.producer_id, row.producer_epoch)
    raise _wrong_state(row, commit)


def _was_fenced(row: TransactionRow, producer_id: int, producer_epoch: int) -> bool:
    """Return True if the row's epoch is that producer's next one, and nothing has begun under it.

    Its transaction timed out, or it has called InitProducerId itself. Another instance leaves no trace of the last one.
    """
    last = row.last_producer_id, row.last_epoch
    return row.state is TransactionState.EMPTY and last == (producer_id, producer_epoch) and producer_id >= 0


def _wrong_state(row: TransactionRow, commit: bool) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"cannot {'commit' if commit else 'abort'}: transactional id {row.transactional_id!r} is in state "
        f"{row.state.value}",
    )


def decide_ended(
    row: TransactionRow, *, commit: bool, bump: bool, pending: Sequence[PendingBatches], fresh_id: int | None
) -> TransactionRow | FreshProducerId:
    """The row after the end of its transaction.

    An abort without a bump remembers the sequences that the aborted batches used up; a commit leaves that to the logs,
    except where it holds nothing but duplicates of earlier transactions, which change no log.
    """
    state = TransactionState.COMMITTED if commit else TransactionState.ABORTED
    if commit:
        row = replace(row, committed_number=row.number)
    if bump:
        return bumped(row, state, (row.producer_id, row.producer_epoch), fresh_id)
    kept = dict(row.aborted_sequences)
    for partition, entries in chains(pending).items():
        if partition in kept and _lies_behind(entries[-1].base_sequence, kept[partition]):
            continue
        if commit:
            kept.pop(partition, None)
        else:
            kept[partition] = _after(entries[-1])
    return replace(_closed(row, state), last_producer_id=-1, last_epoch=-1, aborted_sequences=kept)


def decide_fence(row: TransactionRow, fresh_id: int | None) -> TransactionRow | FreshProducerId:
    """The row after its transaction timed out; its producer may come back by InitProducerId (KIP-588)."""
    return bumped(row, TransactionState.EMPTY, (row.producer_id, row.producer_epoch), fresh_id)


# --- the batches of one partition ---------------------------------------------------------------------------------


def chains(pending: Sequence[PendingBatches]) -> dict[PartitionId, list[TailEntry]]:
    """Each partition's batches in the order of their sequences, which may wrap from 2^31 - 1 to 0."""
    found: dict[PartitionId, list[TailEntry]] = {}
    for each in pending:
        found.setdefault(each.partition, []).extend(each.entries)
    for entries in found.values():
        entries.sort(key=lambda entry: entry.base_sequence)
        if entries[-1].base_sequence - entries[0].base_sequence > SEQUENCE_MAX // 2:
            entries.sort(key=lambda entry: (entry.base_sequence - SEQUENCE_MAX // 2) % (SEQUENCE_MAX + 1))
    return found


@dataclass(frozen=True, slots=True)
class Follows:
    """These entries continue the log of their partition, as long as the clauses hold. None at all: all were there."""

    entries: tuple[TailEntry, ...]
    clauses: tuple[SequenceClause, ...] = ()


@dataclass(frozen=True, slots=True)
class Unfit:
    """The batches cannot be committed, now or later."""

    message: str


@dataclass(frozen=True, slots=True)
class ReadProducerRow:
    """The producer may have been evicted: read its row, then decide again."""

    producer_id: int


def follow(
    entries: Sequence[TailEntry],
    head: PartitionHead,
    evicted: Mapping[int, EvictedProducer],
    next_expected: int | None,
    places: ProducerPlaces = OWN_PLACES,
) -> Follows | Unfit | ReadProducerRow:
    """Decide whether a partition's batches, all of one producer epoch, continue what the log has of the producer.

    Args:
        entries: in the order of their sequences.
        evicted: producer rows that were read after this head.
        next_expected: the next sequence after aborted transactions of this epoch; None: there were none.
        places: where the head's item has the partition's producers.
    """
    if len(entries) > TRANSACTION_BATCHES_PER_PARTITION_MAX:
        return Unfit(
            f"a transaction holds at most {TRANSACTION_BATCHES_PER_PARTITION_MAX} batches of a partition, this one "
            f"{len(entries)}: commit more often or make batches larger"
        )
    first = entries[0]
    producer_id, epoch = first.producer_id, first.producer_epoch
    if producer_id < 0:
        return Follows(tuple(entries))
    state = _state(producer_id, head, evicted, places)
    if isinstance(state, ReadProducerRow):
        return state
    if state is not None and state.epoch > epoch:
        return Unfit(f"producer {producer_id} has written under epoch {state.epoch}, which is newer than {epoch}")
    same_epoch = state is not None and state.epoch == epoch
    next_expected = _continues_at(state, epoch, next_expected)
    new = [entry for entry in entries if not _lies_behind(entry.base_sequence, next_expected)]
    for entry in new:
        if entry.base_sequence != next_expected:
            return Unfit(
                f"a batch is missing: producer {producer_id} wrote sequence {entry.base_sequence}, but "
                f"{next_expected} is next"
            )
        next_expected = _after(entry)
    if not new:
        return Follows(())
    if producer_id in head.producers and state is not None and same_epoch:
        return Follows(tuple(new), (places.follows(producer_id, epoch, state.next_sequence, next_expected),))
    recent = head.recent_batches(producer_id) if producer_id in head.producers else state.recent if state else ()
    kept = recent if same_epoch else ()
    after = ProducerState(epoch, next_expected, kept)
    return Follows(tuple(new), (places.becomes(head, producer_id, after, evicted.get(producer_id, UNKNOWN)),))


def _state(
    producer_id: int, head: PartitionHead, evicted: Mapping[int, EvictedProducer], places: ProducerPlaces
) -> ProducerState | ReadProducerRow | None:
    if head.may_have_evicted(producer_id):
        return places.evicted(evicted[producer_id]) if producer_id in evicted else ReadProducerRow(producer_id)
    return head.producers.get(producer_id)


def _continues_at(state: ProducerState | None, epoch: int, aborted: int | None) -> int:
    """The sequence with which a producer epoch goes on in a log.

    Args:
        aborted: the next sequence after aborted transactions; where these held only duplicates, the log is beyond it.
    """
    if state is None or state.epoch != epoch:
        return aborted or 0
    if aborted is None or _lies_behind(aborted, state.next_sequence):
        return state.next_sequence
    return aborted


# --- offsets that are told before the commit ----------------------------------------------------------------------


def predict(
    first: TailEntry,
    head: PartitionHead,
    evicted: Mapping[int, EvictedProducer],
    next_expected: int | None,
    places: ProducerPlaces = OWN_PLACES,
) -> int | ReadProducerRow:
    """Return the offset that a batch will have if nobody else appends to its partition before the commit.

    Its sequence says how many records the transaction writes before it, in whatever order its batches arrive.

    Args:
        first: the first batch of a request.
        evicted, next_expected, places: as `follow` takes them.

    Returns:
        The offset; -1 for a duplicate of an earlier transaction and for a fenced producer, which get none.
    """
    state = _state(first.producer_id, head, evicted, places)
    if isinstance(state, ReadProducerRow):
        return state
    if state is not None and state.epoch > first.producer_epoch:
        return -1
    next_expected = _continues_at(state, first.producer_epoch, next_expected)
    if _lies_behind(first.base_sequence, next_expected):
        return -1
    return head.next_offset + (first.base_sequence - next_expected) % (SEQUENCE_MAX + 1)


def told_offsets(pending: Sequence[PendingBatches]) -> dict[PartitionId, dict[int, int]]:
    """The offsets that the producer was told: by partition, the offset of each batch by its base sequence."""
    found: dict[PartitionId, dict[int, int]] = {}
    for each in pending:
        if each.told_offset >= 0:
            found.setdefault(each.partition, {})[each.entries[0].base_sequence] = each.told_offset
    return found


def chosen_by(pending: Sequence[PendingBatches]) -> dict[PartitionId, int]:
    """By how few partitions keys chose each of these partitions; those that no key chose are missing."""
    found: dict[PartitionId, int] = {}
    for each in pending:
        if each.chosen_by:
            found[each.partition] = min(found.get(each.partition, each.chosen_by), each.chosen_by)
    return found


def keeps_told_offsets(told: Mapping[int, int], entries: Sequence[TailEntry], next_offset: int) -> bool:
    """Return True if appending the entries at this offset gives each of these base sequences its told offset."""
    offsets: dict[int, int] = {}
    for entry in entries:
        offsets[entry.base_sequence] = next_offset
        next_offset += entry.offset_count
    return told.items() <= offsets.items()


def _lies_behind(sequence: int, expected: int) -> bool:
    """Return True if the sequence was used before, as in a delayed duplicate of an earlier transaction."""
    return (sequence - expected) % (SEQUENCE_MAX + 1) > SEQUENCE_MAX // 2


def _after(entry: TailEntry) -> int:
    return next_sequence(entry.base_sequence, entry.offset_count)
