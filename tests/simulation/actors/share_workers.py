"""Workers of a share group: they take records, accept most, release, reject and forget some; crash, stall and leave."""

from __future__ import annotations

import asyncio

from odradek.engine.share.items import share_key, share_partition
from odradek.engine.share.window import RecordState
from odradek.errors import ErrorCode, FormatError
from odradek.model.share import UNSEEN, AcknowledgementBatch
from odradek.model.topic_partition import PartitionId

from tests.simulation.actors.common import pause
from tests.simulation.audit.truth import true_logs
from tests.simulation.books.history import identity
from tests.simulation.books.items import partition_of
from tests.simulation.store.ports import Fates
from tests.simulation.world import Process, World
from tests.support.clients.share_member import ACCEPT, GAP, REJECT, RELEASE, Acks, ShareMember, ack, delivered, missing

_ATTEMPTS_ENOUGH = 12  # for all workers to change a window before one of them
_PATIENCE_S = 1_800.0  # beside the longest absence: longer than any lock


class ShareWorker:
    """One place in a share group; every life is a new member.

    Args:
        turns: how many polls before the world calms down; after it has, the worker goes on until the run stops.
        leaves: of the turns, with which it leaves.
        rejects: of the records.
    """

    def __init__(
        self,
        world: World,
        group_id: str,
        topics: list[str],
        *,
        turns: int,
        pace_s: float,
        deliveries_max: int,
        leaves: float = 0.03,
        rejects: float = 0.04,
    ) -> None:
        self._world = world
        self._leaves = leaves
        self._rejects = rejects
        self._deliveries_max = deliveries_max
        self._group_id = group_id
        self._topics = topics
        self._turns = turns
        self._pace_s = pace_s
        self._lives = 0
        self._reads: frozenset[PartitionId] = frozenset()  # of the session

    async def program(self, process: Process) -> None:
        world = self._world
        world.ledger.shares.deliveries_max = self._deliveries_max
        world.ledger.shares.window_max = world.settings.share_partition_max_record_locks
        while not world.stop.is_set():
            self._lives += 1
            member = ShareMember(
                process.engine, f"{process.name}/{self._lives}", *self._topics, group_id=self._group_id
            )
            pending: Acks = {}
            while not world.stop.is_set():
                await self._turn(member, pending)
                if self._turns > 0 and world.rng.random() < self._leaves:
                    await member.request(-1, fetches=False, acknowledgements=self._unseen(member, pending))
                    await member.leave()
                    await pause(world, 10.0)
                    break
                self._turns -= 1
                if self._turns == 0:
                    await world.settled.wait()  # silent until then: its session and its locks end
                await asyncio.sleep(world.rng.random() * (self._pace_s if self._turns > 0 else 1.0))

    @property
    def _is_calm(self) -> bool:
        """True in a scenario whose calls are all answered: a change is then given up only as others change the same."""
        world = self._world
        return world.fates == Fates.none() and world.settings.group_attempts_max >= _ATTEMPTS_ENOUGH

    async def _turn(self, member: ShareMember, pending: Acks) -> None:
        world = self._world
        if (await member.beat()).error is not ErrorCode.NONE:
            return
        if member.session_epoch == 0:
            pending.clear()  # what was not acknowledged by now comes back
            self._reads = frozenset()
        sent = dict(pending)
        pending.clear()
        added, removed = member.assignment - self._reads, self._reads - member.assignment
        self._reads = member.assignment
        incarnations = dict(world.ledger.shares.incarnations)
        held = {partition: self._held(member, partition, batches) for partition, batches in sent.items()}
        response = await member.request(
            acknowledgements=sent,
            partitions=added,
            forgotten=removed,
            max_records=world.rng.choice((1, 3, 500)),
            is_strict=world.rng.random() < 0.5,
            max_wait_ms=world.rng.choice((0, 0, 30)),  # each look of a wait is a step of the run
        )
        if response.error is not ErrorCode.NONE:
            return
        for result in response.results:
            if ErrorCode.COORDINATOR_NOT_AVAILABLE in (result.acknowledge_error, result.error) and self._is_calm:
                world.history.problem(
                    f"{member.member_id} was refused {result.partition} though every call is answered"
                )
            if result.partition in sent and result.acknowledge_error is ErrorCode.NONE:
                self._acknowledged(result.partition, sent[result.partition])
            if result.acknowledge_error is ErrorCode.INVALID_RECORD_STATE:
                key = share_key(self._group_id, result.partition)
                if incarnations.get(key) == world.ledger.shares.incarnations.get(key):
                    self._refused(member, result.partition, held.get(result.partition, {}))
            try:
                records = delivered(result)
            except FormatError as error:
                world.history.problem(f"{member.member_id} read damaged bytes of {result.partition}: {error}")
                continue
            for record, count in records:
                group_partition = (self._group_id, result.partition)
                world.history.deliveries[group_partition].append(
                    (record.offset, count, member.member_id, identity(record))
                )
                acknowledge_type = self._verdict()
                if acknowledge_type is not None:
                    pending.setdefault(result.partition, []).append(ack(record.offset, record.offset, acknowledge_type))
            for offset in missing(result):
                pending.setdefault(result.partition, []).append(ack(offset, offset, GAP))

    def _unseen(self, member: ShareMember, pending: Acks) -> Acks:
        """Return the records that our own client gives back when it closes: some never got to the application."""
        if self._world.rng.random() < 0.5:
            return {}
        given_back = {
            partition: [ack(batch.first_offset, batch.last_offset, UNSEEN) for batch in batches]
            for partition, batches in pending.items()
        }
        self._world.ledger.shares.unseen |= {
            (member.member_id, partition, batch.first_offset)
            for partition, batches in given_back.items()
            for batch in batches
        }
        return given_back

    def _held(self, member: ShareMember, partition: PartitionId, batches: list[AcknowledgementBatch]) -> dict[int, int]:
        """The records of the batches with their delivery counts, if the member holds all of them."""
        window = self._world.ledger.shares.windows.get(share_key(self._group_id, partition))
        offsets = [offset for batch in batches for offset in range(batch.first_offset, batch.last_offset + 1)]
        held = {
            offset: run.delivery_count
            for run in (() if window is None else window.runs)
            if run.state is RecordState.ACQUIRED and run.member_id == member.member_id
            for offset in range(run.start, run.end)
        }
        is_whole = held.keys() >= set(offsets) and len(set(offsets)) == len(offsets)
        return {offset: held[offset] for offset in offsets} if is_whole else {}

    def _refused(self, member: ShareMember, partition: PartitionId, held: dict[int, int]) -> None:
        """An acknowledgement was refused: it must not have been taken, as where all is done and nobody had it since.

        Of a record that has no delivery left nothing can be said: whoever finds its lock over, by a clock that may be
        far ahead, makes it a dead letter, and it is done without anybody having had it.
        """
        ledger, key = self._world.ledger, share_key(self._group_id, partition)
        window, deliveries = ledger.shares.windows.get(key), ledger.shares.deliveries[key]
        if not held or window is None or ledger.log_start(partition) > min(held):
            return
        if ledger.was_compacted(partition.topic_id):
            return  # once the lock is over, whoever finds that compaction took the record calls it done
        open_runs = [run for run in window.runs if run.state is not RecordState.DONE]
        is_open = any(run.start <= offset < run.end for run in open_runs for offset in held)
        if not is_open and not any(
            (offset, count + 1) in deliveries or count >= self._deliveries_max for offset, count in held.items()
        ):
            self._world.history.problem(f"{member.member_id} was refused what was taken of {partition}")

    def _verdict(self) -> int | None:
        """Choose the acknowledgement of a record; None forgets it."""
        if self._turns <= 0:
            return ACCEPT
        draw = self._world.rng.random()
        rejected = 0.08 + self._rejects
        return RELEASE if draw < 0.08 else REJECT if draw < rejected else None if draw < rejected + 0.08 else ACCEPT

    def _acknowledged(self, partition: PartitionId, batches: list[AcknowledgementBatch]) -> None:
        history, group_partition = self._world.history, (self._group_id, partition)
        history.accepted[group_partition] |= {batch.first_offset for batch in batches if batch.types == (ACCEPT,)}
        history.rejected[group_partition] |= {batch.first_offset for batch in batches if batch.types == (REJECT,)}


class ShareGroupDeleter:
    """Deletes the group whenever it finds it without members: what comes next begins anew."""

    def __init__(self, world: World, group_id: str, turns: int, pace_s: float) -> None:
        self._world = world
        self._group_id = group_id
        self._turns = turns
        self._pace_s = pace_s

    async def program(self, process: Process) -> None:
        self._world.ledger.shares.may_be_deleted = True
        while self._turns > 0:
            self._turns -= 1
            [(_, code)] = await process.engine.groups.delete([self._group_id])
            self._world.note(f"{process.name} deletes {self._group_id}: {code.name}")
            await pause(self._world, self._pace_s)


async def queue_at_rest(world: World, topic_names: list[str], longest_absence_s: float) -> list[str]:
    """Once nothing fails any more, and where nothing is wrong, a share group gets to the end of its topics."""
    give_up = asyncio.get_running_loop().time() + longest_absence_s + _PATIENCE_S
    while not world.ledger.problems and (left := _lagging(world, topic_names)):
        if asyncio.get_running_loop().time() > give_up:
            return [f"the share group is stuck before the end of {', '.join(left)}"]
        await asyncio.sleep(5)
    return []


def _lagging(world: World, topic_names: list[str]) -> list[str]:
    ledger = world.ledger
    return [
        pk
        for pk, head in ledger.heads.items()
        if (topic_id := partition_of(pk).topic_id) in ledger.live_topics
        and ledger.topic_names[topic_id] in topic_names
        and head["no"]
        and _is_behind(world, pk)
    ]


def _is_behind(world: World, pk: str) -> bool:
    """Return True if the window's start is before a record that exists."""
    ledger, partition = world.ledger, partition_of(pk)
    windows = ledger.shares.windows
    start = next((state.start_offset for key, state in windows.items() if share_partition(key.sk) == partition), 0)
    if start == ledger.heads[pk]["no"]:
        return False
    logs, _ = true_logs(ledger, world.clock.now_ms())
    return not logs[partition].was_compacted or any(map(logs[partition].must_survive, logs[partition].records[start:]))
