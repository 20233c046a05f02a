"""Members of a group that copy what they read in transactions (KIP-447): one transactional id a member, fenced by the
group. A member that takes a partition over begins at the committed offset, which must be one that nobody's transaction
is about to move."""

from __future__ import annotations

from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.model.classic_group import ClassicIdentity
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId, TopicPartition

from tests.simulation.actors.classic_members import ClassicGroupMember
from tests.simulation.actors.common import look_up
from tests.simulation.actors.group_members import GroupMember
from tests.simulation.actors.transactors import TIMEOUT_MS, Fenced, Session, Transactor
from tests.simulation.books import group_book
from tests.simulation.books.classic_book import signature
from tests.simulation.world import Process, World
from tests.support.clients.group_member import Member


class _Copying:
    """Work of a member of either protocol on a partition: copy some records, offset included, in a transaction."""

    def __init__(self, world: World, copier: Transactor) -> None:
        self._world = world
        self._copier = copier
        self._session: Session | None = None
        self._process_of: Process | None = None
        self._topics: tuple[Topic, Topic] | None = None

    async def copy(self, process: Process, partition: PartitionId, positions: dict[PartitionId, int]) -> bool:
        """Copy, and whether the position still holds; otherwise it must be looked up again."""
        engine = process.engine
        if self._topics is None:
            source, sink = [await look_up(engine, name) for name in self._copier.topics]
            if source is None or sink is None:
                return True
            self._topics = source, sink
        try:
            if self._session is None or self._process_of is not process:
                self._session = Session(*await engine.transactions.init(self._copier.transactional_id, TIMEOUT_MS))
                self._process_of = process
                return False
            at = {partition.partition: positions[partition]}
            await self._copier.transact(process, self._session, *self._topics, partition.partition, at)
        except (Fenced, KafkaError):
            self._session = None
            return False
        positions[partition] = at[partition.partition]
        return True


class TransactionalMember(GroupMember):
    """A member of the consumer protocol."""

    def __init__(self, world: World, *args: Any, copier: Transactor, **options: Any) -> None:
        super().__init__(world, *args, pace_s=1.0, **options)
        self._copier = copier
        self._copying = _Copying(world, copier)
        self._acting: Member | None = None

    async def _reset(self, process: Process) -> None:
        """Nobody sets back what is to be copied once."""

    async def _commit_of_the_past(self, member: Member, positions: dict[PartitionId, int]) -> None:
        """Nor does it commit outside of its transactions: a repetition could come after the next one."""

    async def _turn(self, process: Process, member: Member, positions: dict[PartitionId, int]) -> None:
        self._acting = member
        await super()._turn(process, member, positions)

    async def _process(
        self, process: Process, partition: PartitionId, name: str, positions: dict[PartitionId, int]
    ) -> None:
        assert self._acting is not None
        self._copier.metadata = group_book.signature(self._acting.member_id, self._acting.epoch)
        self._copier.committer = {"member_id": self._acting.member_id, "member_epoch": self._acting.epoch}
        if not await self._copying.copy(process, partition, positions):
            positions[partition] = _UNKNOWN

    async def _commit(self, member: Member, partition: TopicPartition, offset: int) -> ErrorCode:
        return ErrorCode.FENCED_MEMBER_EPOCH if offset == _UNKNOWN else ErrorCode.NONE


class TransactionalClassicMember(ClassicGroupMember):
    """A member of the classic protocol."""

    def __init__(self, world: World, *args: Any, copier: Transactor, **options: Any) -> None:
        super().__init__(world, *args, pace_s=1.0, **options)
        self._copier = copier
        self._copying = _Copying(world, copier)

    async def _work(
        self, process: Process, me: ClassicIdentity, partition: PartitionId, positions: dict[PartitionId, int]
    ) -> ErrorCode:
        name = self._world.ledger.topic_names[partition.topic_id]
        tp = TopicPartition(name, partition.partition)
        try:
            if partition not in positions:
                [fetched] = await process.engine.offsets.fetch(self._group_id, [tp], require_stable=True)
                if fetched.error is not ErrorCode.NONE:
                    return fetched.error
                positions[partition] = 0 if fetched.committed is None else fetched.committed.offset
        except KafkaError as error:
            return error.code
        self._copier.metadata = signature(me.member_id, me.generation)
        self._copier.committer = {"member_id": me.member_id, "member_epoch": me.generation}
        if not await self._copying.copy(process, partition, positions):
            del positions[partition]
        return ErrorCode.NONE


_UNKNOWN = -1
MEMBERS: dict[str, Any] = {"consumer": TransactionalMember, "classic": TransactionalClassicMember}
