"""Transactions (docs/decisions/0022): everything that a producer writes in one becomes visible at once, or never.

    InitProducerId           the id's row: an epoch that fences every older instance
    Produce                  upload, register the partitions in the row, one pending item a partition; where the topic
                             asks for it, with the offset that the commit will give the batch, or fail
    TxnOffsetCommit          register the offsets in the row, one pending item an offset
    EndTxn(commit)           pending items -> heads, leases and the row in one TransactWriteItems
    EndTxn(abort), timeout   the row alone: its pending items no longer have any effect

So nothing uncommitted is ever in a log. An acknowledged Produce is durable as a pending item before it is answered, and
EndTxn, which a producer sends after those responses, reads the pending items consistently. Each write of the row is
conditional on its version: of two concurrent requests that end a transaction, or of which one ends it and the other
adds to it, one is refused and reads the row again.

A crash between any two calls leaves an open transaction (its producer repeats the call, or the timeout fences it),
pending items of an ended transaction (maintenance deletes them), or unreferenced uploads (the sweep deletes them).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from odradek.engine.append.decisions import KnownRows, Reject, decide_sequences
from odradek.engine.append.refusals import not_uploaded
from odradek.engine.append.upload import Upload, Uploads, refusal
from odradek.engine.catalog.partitions import resolve_partition
from odradek.engine.catalog.producer_ids import ProducerIdAndEpoch, ProducerIds
from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.catalog.topics import Topics
from odradek.engine.groups.requests import check_group_id
from odradek.engine.offsets.decisions import Committer, check_offset
from odradek.engine.offsets.offsets import GroupOffsets
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.producer_places import places_of
from odradek.engine.tools import Tools
from odradek.engine.transactions.commit import AtomicCommit, CommitWork, Failed
from odradek.engine.transactions.decisions import (
    Ended,
    FreshProducerId,
    ReadProducerRow,
    TimedOut,
    chains,
    check_announced,
    check_producer,
    chosen_by,
    decide_end,
    decide_ended,
    decide_fence,
    decide_init,
    decide_join,
    fenced,
    predict,
    told_offsets,
)
from odradek.engine.transactions.items import (
    PendingBatches,
    PendingOffset,
    TransactionRow,
)
from odradek.engine.transactions.store import TransactionStore, unavailable
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    FormatError,
    KafkaError,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
)
from odradek.limits import ID_BYTES_MAX
from odradek.model.group import OffsetCommitResult
from odradek.model.log import ProducePartition, ProduceResult
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition
from odradek.ports.table import Key

_CLEAN_AT_ONCE_MAX = 100  # pending items that the end of a transaction deletes itself; maintenance does the rest
_PARALLEL_WRITES = 25


class Transactions:
    """The transaction coordinator; holds no state between calls."""

    def __init__(
        self,
        tools: Tools,
        index: PartitionIndex,
        topics: Topics,
        producer_ids: ProducerIds,
        offsets: GroupOffsets,
        uploads: Uploads,
    ) -> None:
        self.store = TransactionStore(tools.tables, producer_ids.next_id, tools.clock, tools.rng, tools.settings)
        self._tools = tools
        self._tables = tools.tables
        self._index = index
        self._topics = topics
        self._offsets = offsets
        self._uploads = uploads
        self._clock = tools.clock
        self._settings = tools.settings

    # --- InitProducerId -------------------------------------------------------------------------------------------

    async def init(
        self, transactional_id: str, timeout_ms: int, *, producer_id: int = -1, producer_epoch: int = -1
    ) -> ProducerIdAndEpoch:
        """Take over the transactional id: older instances are fenced, and their open transactions aborted.

        Args:
            timeout_ms: how long a transaction may stay open.
            producer_id, producer_epoch: of a producer that continues after an error (KIP-360); -1: a new instance.

        Raises KafkaError: INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED, COORDINATOR_NOT_AVAILABLE.
        """
        check_transactional_id(transactional_id)
        if not 0 < timeout_ms <= self._settings.transaction_timeout_ms_max:
            raise KafkaError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"transaction.timeout.ms must be between 1 and {self._settings.transaction_timeout_ms_max}, "
                f"not {timeout_ms}",
            )
        if (producer_id < 0) != (producer_epoch < 0):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "give both producer id and epoch to keep an id, or neither")

        def decide(row: TransactionRow | None, fresh_id: int | None) -> TransactionRow | FreshProducerId:
            return decide_init(row, transactional_id, timeout_ms, producer_id, producer_epoch, fresh_id)

        row = await self.store.change(transactional_id, decide)
        return ProducerIdAndEpoch(row.producer_id, row.producer_epoch)

    # --- taking in ------------------------------------------------------------------------------------------------

    async def add_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """AddPartitionsToTxn: what each partition met. If one is refused none is added.

        Raises KafkaError: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, TRANSACTION_ABORTABLE (too
        many), COORDINATOR_NOT_AVAILABLE.
        """
        found: dict[TopicPartition, KafkaError | None] = {}
        wanted: list[PartitionId] = []
        for partition in partitions:
            try:
                wanted.append(await self._resolve(partition))
                found[partition] = None
            except KafkaError as error:
                found[partition] = error
        if any(found.values()):
            not_tried = KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, "another partition of the request was refused")
            return {partition: error or not_tried for partition, error in found.items()}
        await self._join(transactional_id, producer_id, producer_epoch, partitions=wanted)
        return found

    async def add_offsets(self, transactional_id: str, producer_id: int, producer_epoch: int, group_id: str) -> None:
        """AddOffsetsToTxn. Raises KafkaError as `add_partitions`, INVALID_GROUP_ID."""
        check_group_id(group_id)
        await self._join(transactional_id, producer_id, producer_epoch, groups=[group_id])

    async def produce(
        self, transactional_id: str, partitions: Sequence[ProducePartition], *, announces: bool
    ) -> list[ProduceResult]:
        """Upload batches into the transaction; results in the order of the request.

        The base offset is -1, because the commit assigns it. A topic with transaction.offsets=predicted promises one: a
        commit that cannot keep it is refused (docs/decisions/0012).

        Args:
            announces: whether writing to a partition takes it into the transaction (KIP-890), or only
                AddPartitionsToTxn does.
        """
        uploads, results = await self._uploads.validate_all(partitions, transactional=True)
        if uploads:
            try:
                results |= await self._produce(transactional_id, uploads, announces=announces)
            except KafkaError as error:
                results |= {each.index: refusal(each.request, error.code, error.message) for each in uploads}
            except StoreError as error:
                refused = not_uploaded(error)
                results |= {each.index: refusal(each.request, refused.code, refused.message) for each in uploads}
        return [results[i] for i in range(len(partitions))]

    async def _produce(
        self, transactional_id: str, uploads: Sequence[Upload], *, announces: bool
    ) -> dict[int, ProduceResult]:
        check_transactional_id(transactional_id)
        producers = {(entry.producer_id, entry.producer_epoch) for each in uploads for entry in each.entries}
        if len(producers) != 1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the batches of one request must have one producer id and epoch"
            )
        [(producer_id, epoch)] = producers
        touched = [each.partition for each in uploads]
        if announces:
            row = await self._join(transactional_id, producer_id, epoch, partitions=touched)
        else:
            row = await self._open(transactional_id, producer_id, epoch)
            check_announced(row, partitions=touched)
        for each in uploads:
            if each.request.expected_offset is not None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "a transaction cannot have expected offsets")
            _check_sequences(each)
        stored = await self._uploads.store(uploads)

        async def add(upload: Upload) -> ProduceResult:
            request = upload.request
            try:
                told = await self._predict(upload, row)
                pending = PendingBatches(upload.partition, upload.entries, told, request.chosen_by or 0)
                told = await self.store.add_batches(transactional_id, row.number, pending)
            except KafkaError as error:
                return refusal(request, error.code, error.message)
            return ProduceResult(request.topic, request.partition, base_offset=told, topic_id=upload.topic.topic_id)

        done = await asyncio.gather(*(add(upload) for upload in stored))
        return {upload.index: result for upload, result in zip(stored, done, strict=True)}

    async def _predict(self, upload: Upload, row: TransactionRow) -> int:
        """Return the offset to promise, -1: none. Raises StoreUnavailable."""
        if not TopicConfig.of(upload.topic, self._settings).predicts_offsets:
            return -1
        partition, first = upload.partition, upload.entries[0]
        aborted = row.aborted_sequences.get(partition)
        places = places_of(partition)
        try:
            [head] = await self._index.read_heads([partition], whole=False)
            if head is None:
                return -1
            offset = predict(first, head, {}, aborted, places)
            if isinstance(offset, ReadProducerRow):
                evicted = await self._index.producer_rows.read(partition.head_id, offset.producer_id)
                offset = predict(first, head, {offset.producer_id: evicted}, aborted, places)
        except FormatError:
            return -1  # the commit reads the same, and says so
        assert isinstance(offset, int)
        return offset

    async def commit_offsets(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        member_id: str = "",
        member_epoch: int = -1,
        instance_id: str | None = None,
        announces: bool,
    ) -> list[OffsetCommitResult]:
        """TxnOffsetCommit: offsets that the transaction will commit; results in the order of `offsets`.

        Whether the member may commit them is checked now, to tell it early, and again by the commit itself.

        Args:
            announces: whether this takes the group into the transaction (KIP-890), or only AddOffsetsToTxn does.

        Raises KafkaError: as `add_offsets`, INVALID_TXN_STATE.
        """
        check_transactional_id(transactional_id)
        check_group_id(group_id)
        row = await self._open(transactional_id, producer_id, producer_epoch)
        if not announces:
            check_announced(row, groups=[group_id])
        committer = Committer(member_id, member_epoch, instance_id)
        codes: dict[TopicPartition, ErrorCode] = {}
        places: dict[TopicPartition, PartitionId] = {}
        for partition, offset in offsets.items():
            codes[partition] = check_offset(offset, self._settings.offset_metadata_bytes_max)
            try:
                places[partition] = await self._resolve(partition)
            except KafkaError as error:
                codes[partition] = codes[partition] or error.code
        good = [partition for partition in offsets if not codes[partition]]
        refused = await self._offsets.refusals(group_id, [places[each] for each in good], committer)
        codes |= {partition: refused[places[partition]] for partition in good}
        good = [partition for partition in good if not codes[partition]]
        if good:
            leases = [(group_id, places[partition]) for partition in good]
            row = await self._join(transactional_id, producer_id, producer_epoch, groups=[group_id], leases=leases)
        slots = asyncio.Semaphore(_PARALLEL_WRITES)
        stamp_ms = self._clock.now_ms()

        async def add(partition: TopicPartition) -> ErrorCode:
            pending = PendingOffset(
                group_id, places[partition], partition.topic, offsets[partition], member_id, member_epoch, stamp_ms
            )
            async with slots:
                try:
                    await self.store.add_offset(transactional_id, row.number, pending)
                except KafkaError as error:
                    return error.code
            return ErrorCode.NONE

        codes |= dict(zip(good, await asyncio.gather(*(add(partition) for partition in good)), strict=True))
        return [OffsetCommitResult(partition, codes[partition]) for partition in offsets]

    async def _resolve(self, partition: TopicPartition) -> PartitionId:
        _, place = await resolve_partition(self._topics, partition.topic, partition.partition)
        return place

    async def _open(self, transactional_id: str, producer_id: int, producer_epoch: int) -> TransactionRow:
        """Return the row for its current producer. Raises KafkaError: PRODUCER_FENCED, also after the timeout."""
        check_transactional_id(transactional_id)
        try:
            row = check_producer(await self.store.read(transactional_id), producer_id, producer_epoch)
        except StoreUnavailable:
            raise unavailable() from None
        if row.has_timed_out(self._clock.now_ms()):
            raise fenced(row)
        return row

    async def _join(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        partitions: Sequence[PartitionId] = (),
        groups: Sequence[str] = (),
        leases: Sequence[tuple[str, PartitionId]] = (),
    ) -> TransactionRow:
        """Register these in the open transaction, or begin one with them."""
        check_transactional_id(transactional_id)

        def decide(row: TransactionRow | None, fresh_id: int | None) -> TransactionRow | FreshProducerId:
            row = check_producer(row, producer_id, producer_epoch)
            now_ms = self._clock.now_ms()
            joined = decide_join(row, now_ms, partitions=partitions, groups=groups, leases=leases)
            return row if joined == row else joined

        return await self.store.change(transactional_id, decide)

    async def _fence(self, seen: TransactionRow) -> TransactionRow:
        """End the given transaction if it is still open and timed out, and bump the epoch."""

        def decide(row: TransactionRow | None, fresh_id: int | None) -> TransactionRow | FreshProducerId:
            assert row is not None
            if row.number != seen.number or not row.has_timed_out(self._clock.now_ms()):
                return row
            return decide_fence(row, fresh_id)

        return await self.store.change(seen.transactional_id, decide)

    # --- EndTxn ---------------------------------------------------------------------------------------------------

    async def end(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, commit: bool, bump: bool
    ) -> ProducerIdAndEpoch:
        """Commit or abort; the id and epoch that are valid from here on. May be repeated: the answer is the same.

        Args:
            bump: whether the end bumps the epoch (KIP-890: EndTxn 5 and later).

        Raises:
            KafkaError: INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE; PRODUCER_FENCED: an earlier attempt may have
                committed it; TRANSACTION_ABORTABLE: it cannot be committed and has been aborted;
                COORDINATOR_NOT_AVAILABLE: it may or may not have ended, ask again.
        """
        check_transactional_id(transactional_id)
        failed: Failed | None = None
        number: int | None = None  # of the transaction that this call ends, once it has been seen open
        stamp_ms = 0
        unknown: AtomicCommit | None = None  # an attempt whose outcome nobody told
        may_be_committed = False  # by an attempt whose request may have come twice, or late
        for attempt in range(self._settings.group_attempts_max):
            try:
                row = await self.store.read(transactional_id)
                if row is not None and number is not None and row.committed_number == number:
                    if unknown is not None:
                        await unknown.wake()
                    return _after_commit(row, producer_id, producer_epoch, bump=bump)  # an attempt of ours was applied
                if failed is not None and row is not None and not (row.is_ongoing and row.number == number):
                    if may_be_committed and number is not None and row.committed_number > number:
                        raise _untold()  # what stood in the way may be its own entries, and a later one hides its end
                    raise _cannot_commit(failed)
                wanted = commit and failed is None
                verdict = decide_end(row, producer_id, producer_epoch, self._clock.now_ms(), commit=wanted, bump=bump)
                if isinstance(verdict, Ended):
                    return ProducerIdAndEpoch(verdict.producer_id, verdict.producer_epoch)
                assert row is not None
                if isinstance(verdict, TimedOut):
                    await self._fence(row)
                    continue
                number = row.number
                pending, offsets, keys = await self._pending(row, needed=wanted or not bump)

                def decide(row: TransactionRow | None, fresh_id: int | None) -> TransactionRow | FreshProducerId:
                    assert row is not None
                    return decide_ended(row, commit=wanted, bump=bump, pending=pending, fresh_id=fresh_id)  # noqa: B023

                ended = self.store.next_version(row, await self.store.decided(row, decide))
                if wanted and (pending or offsets):
                    work = CommitWork(
                        chains(pending), offsets, row.aborted_sequences, told_offsets(pending), chosen_by(pending)
                    )
                    one = AtomicCommit(self._tools, self._index, work, stamp_ms)
                    outcome = await one.attempt(self.store.deciding_operation(row, ended))
                    unknown = one if outcome == "unknown" else unknown
                    stamp_ms = one.stamp_ms
                    if isinstance(outcome, Failed):
                        failed = outcome
                        continue
                    if outcome != "applied":
                        may_be_committed = True
                        await self.store.backoff.pause(attempt)
                        continue
                    await asyncio.gather(one.spill(), self._clean(keys))
                else:
                    await self._tables.catalog.put(self.store.write_operation(row, ended))
                    await self._clean(keys)
            except (ConditionFailed, OutcomeUnknown, StoreUnavailable):
                await self.store.backoff.pause(attempt)
                continue
            if failed is not None:
                raise _cannot_commit(failed)
            return ProducerIdAndEpoch(ended.producer_id, ended.producer_epoch)
        raise unavailable()

    async def _pending(
        self, row: TransactionRow, *, needed: bool
    ) -> tuple[list[PendingBatches], list[PendingOffset], list[Key]]:
        if not needed or not row.is_ongoing:
            return [], [], []
        return await self.store.read_pending(row.transactional_id, row.number)

    async def _clean(self, keys: Sequence[Key]) -> None:
        await self.store.delete(keys[:_CLEAN_AT_ONCE_MAX])

    # --- looking, and maintenance ---------------------------------------------------------------------------------

    async def list(self) -> list[TransactionRow]:
        """All transactional ids. Raises KafkaError(COORDINATOR_NOT_AVAILABLE)."""
        try:
            return await self.store.read_all()
        except StoreUnavailable:
            raise unavailable() from None

    async def describe(self, transactional_id: str) -> TransactionRow | None:
        """Return one transactional id, None if it is unknown. Raises KafkaError(COORDINATOR_NOT_AVAILABLE)."""
        if len(transactional_id.encode()) > ID_BYTES_MAX:
            return None
        try:
            return await self.store.read(transactional_id)
        except StoreUnavailable:
            raise unavailable() from None

    async def wants_expiry(self) -> bool:
        """Return True if `expire_transactions` has anything to do.

        Raises KafkaError(COORDINATOR_NOT_AVAILABLE), StoreUnavailable.
        """
        for row in await self.list():
            if row.has_timed_out(self._clock.now_ms()) or await self.store.has_ended(row):
                return True
        return False

    async def expire_transactions(self) -> dict[str, int]:
        """Fence producers whose transaction timed out, and delete what ended transactions left. May be repeated.

        Returns:
            How many: transactions_expired, pending_items_removed.

        Raises KafkaError(COORDINATOR_NOT_AVAILABLE), StoreUnavailable: run it again.
        """
        done = {"transactions_expired": 0, "pending_items_removed": 0}
        for row in await self.list():
            current = row
            if row.has_timed_out(self._clock.now_ms()):
                current = await self._fence(row)
                done["transactions_expired"] += not current.is_ongoing
            done["pending_items_removed"] += await self.store.delete_ended(current)
        return done


def check_transactional_id(transactional_id: str) -> None:
    """Raises KafkaError(INVALID_REQUEST)."""
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty: leave it out or name it")
    if len(transactional_id.encode()) > ID_BYTES_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a transactional id may have at most {ID_BYTES_MAX} bytes")


def _check_sequences(upload: Upload) -> None:
    verdict = decide_sequences(upload.entries, None, KnownRows())
    if isinstance(verdict, Reject):
        raise KafkaError(verdict.code, verdict.message)


def _after_commit(row: TransactionRow, producer_id: int, producer_epoch: int, *, bump: bool) -> ProducerIdAndEpoch:
    """The id and epoch after a commit whose answer was lost; never those that a newer instance was given since."""
    if not bump:
        return ProducerIdAndEpoch(producer_id, producer_epoch)
    if (row.last_producer_id, row.last_epoch) == (producer_id, producer_epoch):
        return ProducerIdAndEpoch(row.producer_id, row.producer_epoch)
    return ProducerIdAndEpoch(producer_id, producer_epoch + 1)


_untold = partial(
    KafkaError,
    ErrorCode.PRODUCER_FENCED,
    "another instance has the transactional id, and the transaction may have been committed: continue from the "
    "committed offsets",
)


def _cannot_commit(failed: Failed) -> KafkaError:
    return KafkaError(
        ErrorCode.TRANSACTION_ABORTABLE, f"the transaction cannot be committed and has been aborted: {failed.message}"
    )
