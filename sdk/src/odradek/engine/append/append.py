"""Append: validate everything, upload once, then one conditional update a head.

The data is durable before any offset or sequence moves: a crash between upload and update leaves an unreferenced
object, never a hole and never a lost acknowledged write. Partitions of one request succeed or fail each on its own.
Uploads run side by side; updates of one producer's batches keep the order in which they arrived (append/order.py).

A gateway makes one call of several requests (gateway/group_commit.py). Batches of theirs for one partition are a run:
one update appends all of them, or, if one of them must be looked at, none; then each is appended by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from odradek.engine.append.commit_times import CommitTimes
from odradek.engine.append.conditional_append import AppendTools
from odradek.engine.append.decisions import Reject
from odradek.engine.append.heads_seen import HeadsSeen
from odradek.engine.append.member import Appended, Member, Outcome
from odradek.engine.append.order import AppendOrder, Turn
from odradek.engine.append.refusals import APART, not_uploaded
from odradek.engine.append.room import Room
from odradek.engine.append.shared_appends import SharedAppends
from odradek.engine.append.upload import Upload, Uploads
from odradek.engine.append.wal import Wal
from odradek.engine.catalog.topics import Topics
from odradek.engine.leaders.leaders import Leaders
from odradek.engine.marks import Marks
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.tools import Tools
from odradek.errors import ErrorCode, StoreError
from odradek.format.tail_entry import FLAG_LOG_APPEND_TIME
from odradek.model.cluster import FLEET_BROKER_ID
from odradek.model.log import ProducePartition, ProduceResult

RUN_ENTRIES_MAX = 32  # batches of a run: what one update adds to a head stays small

OnResult = Callable[[int, ProduceResult], None]
"""Is told the result of each partition, by its position in the request, as soon as there is one."""


class _Call:
    """One produce request on its way."""

    def __init__(
        self, partitions: Sequence[ProducePartition], turns: Sequence[Turn], on_result: OnResult | None
    ) -> None:
        self.partitions = partitions
        self.turns = turns
        self.results: dict[int, ProduceResult] = {}
        self._on_result = on_result

    def settle(self, index: int, result: ProduceResult) -> None:
        """Note a partition's result, and let those behind it know."""
        self.results[index] = result
        self.turns[index].settle(result)
        if self._on_result is not None:
            self._on_result(index, result)

    def give_up(self) -> None:
        """End the turns that have no result: the request was cancelled, or failed."""
        for turn in self.turns:
            turn.settle(None)


class Appender:
    """Appends for any partition. Between calls it keeps the order of producers, which no promise rests on."""

    def __init__(
        self,
        tools: Tools,
        index: PartitionIndex,
        leaders: Leaders,
        wal: Wal,
        topics: Topics,
        marks: Marks,
    ) -> None:
        clock, rng, settings = tools.clock, tools.rng, tools.settings
        self._topics = topics
        self._clock = clock
        self._settings = settings
        self._order = AppendOrder()
        self._uploads = Uploads(wal, topics, clock, rng, settings)
        self._tools = AppendTools(
            index=index,
            leaders=leaders,
            wal=wal,
            clock=clock,
            rng=rng,
            settings=settings,
            commit_times=CommitTimes(clock),
            marks=marks,
            room=Room(index, clock, rng),
            heads_seen=HeadsSeen(index),
            backoff=tools.backoff(first_s=0.02, max_s=1.0),
        )

    async def produce(
        self, partitions: Sequence[ProducePartition], on_result: OnResult | None = None
    ) -> list[ProduceResult]:
        """Append; results in the order of the request. See Engine.produce."""
        call = _Call(partitions, [self._order.enter(each) for each in partitions], on_result)
        try:
            uploads, refused = await self._uploads.validate_all(partitions)
            for index, result in refused.items():
                call.settle(index, result)
            if uploads:
                await self._append_all(call, uploads)
        finally:
            call.give_up()
        return [call.results[i] for i in range(len(partitions))]

    # --- upload ---------------------------------------------------------------------------------------------------

    async def _append_all(self, call: _Call, uploads: Sequence[Upload]) -> None:
        try:
            stored = await self._uploads.store(uploads)
        except StoreError as error:
            for upload in uploads:
                call.settle(upload.index, _result(upload.request, not_uploaded(error)))
            return
        deadline_s = self._clock.monotonic() + self._settings.request_timeout_ms / 1000

        shared = SharedAppends(self._tools, deadline_s)
        runs = list(_runs(stored))
        if all(len(run) == 1 and _is_ready(run[0], call.turns[run[0].index]) for run in runs):
            work = self._append_ready(call, [upload for run in runs for upload in run], shared)
        else:  # they meet at their heads, whichever has to wait
            work = [self._append_run(call, run, shared) for run in runs]
        try:
            if len(work) == 1:
                await work[0]
            else:
                await asyncio.gather(*work)
        finally:
            shared.close()

    # --- one conditional update a head ----------------------------------------------------------------------------

    def _append_ready(
        self, call: _Call, uploads: Sequence[Upload], shared: SharedAppends
    ) -> list[Coroutine[Any, Any, None]]:
        """Return the appends of batches that wait for nobody: without a task or a future of their own."""
        by_member: dict[Member, Upload] = {}
        for upload in uploads:
            turn, request = call.turns[upload.index], upload.request
            member = Member(
                upload.partition, upload.entries, upload.bytes_, request.expected_offset, turn, request.chosen_by
            )
            by_member[member] = upload

        def settle(member: Member, outcome: Outcome) -> None:
            upload = by_member[member]
            call.settle(upload.index, self._settled(upload, outcome))

        return shared.appends(list(by_member), settle)

    async def _append_run(self, call: _Call, run: Sequence[Upload], shared: SharedAppends) -> None:
        if len(run) == 1:  # without a task of its own: it meets the others of its head at the same moment
            await self._append_in_turn(call, run[0], shared)
        elif not await self._append_together(call, run, shared):
            # Side by side, in the order of their turns: one of them may wait for another that is behind it here.
            await asyncio.gather(*(self._append_in_turn(call, upload, shared) for upload in run))

    async def _append_in_turn(self, call: _Call, upload: Upload, shared: SharedAppends) -> None:
        turn = call.turns[upload.index]
        refusal = await turn.come()
        if refusal is None:
            result = await self._append(upload, turn, shared)
        elif isinstance(refusal, Reject):
            result = _result(upload.request, refusal)
        else:
            result = replace(refusal, topic_id=upload.request.topic_id)
        call.settle(upload.index, result)

    async def _append_together(self, call: _Call, run: Sequence[Upload], shared: SharedAppends) -> bool:
        """Append a run by one update and settle its requests; False: nothing was appended, each is to be by itself."""
        turns = [call.turns[upload.index] for upload in run]
        if await turns[0].come() is not None or not all(turn.follows_only(turns[:at]) for at, turn in enumerate(turns)):
            return False
        entries = [entry for upload in run for entry in upload.entries]
        data = memoryview(b"".join(upload.bytes_ for upload in run))
        member = Member(run[0].partition, entries, data, None, turns[0], run[0].request.chosen_by, is_run=True)
        outcome = await shared.append(member)
        appended = outcome.result
        if appended is APART:
            return False
        if isinstance(appended, Reject):
            if outcome.partition_is_gone:
                self._topics.forget(run[0].topic)
            for upload in run:
                call.settle(upload.index, _result(upload.request, appended, outcome.head))
            return True
        offset = appended.base_offset
        for upload in run:
            call.settle(upload.index, self._appended(upload, appended, offset))
            offset += sum(entry.offset_count for entry in upload.entries)
        return True

    async def _append(self, upload: Upload, turn: Turn, shared: SharedAppends) -> ProduceResult:
        placed = upload.entries
        # Entries of producers go one by one: each may be a duplicate of its own.
        idempotent = len(placed) > 1 and any(entry.producer_id >= 0 for entry in placed)
        base_offset = -1
        expected_offset, chosen_by = upload.request.expected_offset, upload.request.chosen_by
        for group in ([entry] for entry in placed) if idempotent else (placed,):
            start = group[0].position - placed[0].position
            data = upload.bytes_[start : start + sum(entry.length for entry in group)]
            outcome = await shared.append(Member(upload.partition, group, data, expected_offset, turn, chosen_by))
            if isinstance(outcome.result, Reject):
                return self._settled(upload, outcome)
            appended = outcome.result
            if expected_offset is not None:  # nothing may come between the batches either
                expected_offset = appended.base_offset + sum(entry.offset_count for entry in group)
            base_offset = appended.base_offset if base_offset < 0 else base_offset
        return self._appended(upload, appended, base_offset)

    def _settled(self, upload: Upload, outcome: Outcome) -> ProduceResult:
        if isinstance(outcome.result, Reject):
            if outcome.partition_is_gone:
                self._topics.forget(upload.topic)
            return _result(upload.request, outcome.result, outcome.head)
        return self._appended(upload, outcome.result, outcome.result.base_offset)

    def _appended(self, upload: Upload, appended: Appended, base_offset: int) -> ProduceResult:
        is_log_append_time = upload.entries[0].flags & FLAG_LOG_APPEND_TIME
        return ProduceResult(
            upload.request.topic,
            upload.request.partition,
            base_offset=base_offset,
            log_append_time_ms=appended.append_ms if is_log_append_time else -1,
            log_start_offset=appended.log_start_offset,
            topic_id=upload.topic.topic_id,
        )


def _is_ready(upload: Upload, turn: Turn) -> bool:
    """Return True if a partition's batches go into the log by one update, and wait for nobody."""
    return turn.has_come and (len(upload.entries) == 1 or all(entry.producer_id < 0 for entry in upload.entries))


def _runs(stored: Sequence[Upload]) -> list[list[Upload]]:
    """The uploads that may go into the log together: neighbours of one partition, all of producers or all plain."""
    runs: list[list[Upload]] = []
    for upload in stored:
        if runs and _goes_on(runs[-1], upload):
            runs[-1].append(upload)
        else:
            runs.append([upload])
    return runs


def _goes_on(run: Sequence[Upload], upload: Upload) -> bool:
    if run[0].partition != upload.partition:
        return False
    entries = [entry for member in (*run, upload) for entry in member.entries]
    requests = run[-1].request, upload.request
    return (
        requests[0].chosen_by == requests[1].chosen_by
        and all(request.expected_offset is None for request in requests)
        and len(entries) <= RUN_ENTRIES_MAX
        and len({entry.producer_id < 0 for entry in entries}) == 1
        # One update has one condition and one new state of a producer.
        and len({entry.producer_id for entry in entries})
        == len({(entry.producer_id, entry.producer_epoch) for entry in entries})
        and all(one.position + one.length == other.position for one, other in pairwise(entries))
    )


def _result(request: ProducePartition, rejection: Reject, head: PartitionHead | None = None) -> ProduceResult:
    # A head that is the fleet's, and dealt to another gateway, has no leader that a client of gateways could go to.
    is_led = head is not None and head.leader_id != FLEET_BROKER_ID
    leader = head if is_led and rejection.code is ErrorCode.NOT_LEADER_OR_FOLLOWER else None
    return ProduceResult(
        request.topic,
        request.partition,
        error=rejection.code,
        message=rejection.message,
        topic_id=request.topic_id,
        log_start_offset=head.log_start_offset if head else -1,
        current_leader_id=leader.leader_id if leader else -1,
        current_leader_epoch=leader.leader_epoch if leader else -1,
        next_offset=rejection.next_offset,
    )
