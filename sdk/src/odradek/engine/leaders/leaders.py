"""Leadership of partitions: taking it, appending by it, giving it back (partition/claims.py has the rules).

    taking      1. the row of the epoch that ends     create-only: a fact, harmless if nothing follows
                2. li = us, le + 1, es = no           on condition that li and le are as seen

    The claim is ours only if the response says that the second step was applied. If the response was lost, the epoch
    that it may have begun has no holder: we read again and take the next one. So no epoch ever has two holders, not
    even two incarnations of one broker id, and the head need not say which incarnation took it.

The fleet takes lazily: a function that is refused because a gateway leads asks the registry, and takes over where that
gateway's session is over. A gateway takes on its first append to a partition, or by `take`. What it holds ends when the
head refuses it; a gateway that lost its registration holds nothing any more.

Where gateways share the work (`run_balance`), each takes only what balance.py deals to it, and gives back what is dealt
to another: a head is the fleet's for a moment, and the other takes it at its first append. Producers learn it by
NOT_LEADER_OR_FOLLOWER and from metadata. A gateway that is about to stop says so first (`leave`): then everything is
dealt to the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from odradek.engine.catalog.topics import Topics
from odradek.engine.leaders.balance import leader_of
from odradek.engine.leaders.brokers import Brokers, RegistrationLost
from odradek.engine.partition.claims import (
    FLEET_CLAIM,
    AskBrokers,
    Claim,
    Follow,
    Lead,
    Verdict,
    decide_leadership,
    handover,
)
from odradek.engine.partition.head import head_key
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.leader_epochs import LeaderEpochs
from odradek.engine.partition.shared_head import HeadImage, decode_image
from odradek.engine.tools import Tools
from odradek.errors import ConditionFailed, ErrorCode, KafkaError, OutcomeUnknown, StoreUnavailable
from odradek.model.cluster import FLEET_BROKER_ID, Broker
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Item, Update

_ATTEMPTS = 6
_RENEWALS_A_SESSION = 3
_BALANCES_A_SESSION = 10
_GIVEN_BACK_AT_ONCE = 32


class Leaders:
    """The partitions that this process leads.

    Args:
        broker_id: the fleet's, or the id that this process registers under (`register`).
    """

    def __init__(
        self,
        tools: Tools,
        index: PartitionIndex,
        brokers: Brokers,
        epochs: LeaderEpochs,
        topics: Topics,
        broker_id: int = FLEET_BROKER_ID,
    ) -> None:
        self.broker_id = broker_id
        self._topics = topics
        self._is_balanced = False
        self._log = tools.tables.log
        self._index = index
        self._brokers = brokers
        self._epochs = epochs
        self._clock = tools.clock
        self._settings = tools.settings
        self._claims: dict[PartitionId, Claim] = {}
        self._locks: dict[PartitionId, asyncio.Lock] = {}

    # --- a gateway's life -----------------------------------------------------------------------------------------

    async def register(self, host: str, port: int, rack: str | None = None) -> None:
        """Become a broker that may lead. Raises KafkaError as `Brokers.register`."""
        await self._brokers.register(Broker(self.broker_id, host, port, rack))

    async def run_renewal(self) -> None:
        """Keep the registration alive until cancelled.

        Raises RegistrationLost: another process has this id; all claims are dropped, and this process must end.
        """
        pause_s = self._settings.broker_session_ms / _RENEWALS_A_SESSION / 1000
        while True:
            await self._clock.sleep(pause_s)
            try:
                await self._brokers.renew()
            except (StoreUnavailable, OutcomeUnknown):
                continue  # there are other attempts within a session
            except RegistrationLost:
                self._claims.clear()
                raise

    async def run_balance(self) -> None:
        """Share heads with the other gateways until cancelled: take, and keep, only what is dealt to this one."""
        self._is_balanced = True
        pause_s = self._settings.broker_session_ms / _BALANCES_A_SESSION / 1000
        while True:
            await self._clock.sleep(pause_s)
            try:
                await self.balance()
            except StoreUnavailable:
                continue  # everybody keeps what they have

    async def balance(self) -> None:
        """Give back what is dealt to other gateways. Raises StoreUnavailable."""
        held = list(self._claims)
        dealt = [(head_id, await self.dealt_to(head_id)) for head_id in held]
        await self._give_back([head_id for head_id, to in dealt if to not in (None, self.broker_id)])

    async def dealt_to(self, head_id: PartitionId) -> int | None:
        """The gateway that should lead a head; None: no gateway takes anything. Raises StoreUnavailable."""
        takers = [broker.broker_id for broker in await self._brokers.takers()]
        try:
            count = (await self._topics.resolve("", head_id.topic_id)).partition_count
        except KafkaError:
            count = 0  # deleted, or not known here yet
        return leader_of(head_id.topic_id, count, head_id.partition, takers)

    async def leave(self) -> bool:
        """Give everything to the other gateways, before this one stops; False: there is none, and nothing was done.

        Heads are taken no more from now on.
        """
        try:
            others = [each for each in await self._brokers.takers() if each.broker_id != self.broker_id]
            if not others or not self._is_balanced:
                return False
            await self._brokers.retire()
        except (StoreUnavailable, OutcomeUnknown, RegistrationLost, KafkaError):
            return False  # what this gateway leads, the others take when its registration is over
        await self._give_back(list(self._claims))
        return True

    async def release_all(self) -> None:
        """Give every partition back to the fleet, then leave."""
        await self._give_back(list(self._claims))
        await self._brokers.release()

    async def _give_back(self, head_ids: Sequence[PartitionId]) -> None:
        for first in range(0, len(head_ids), _GIVEN_BACK_AT_ONCE):
            await asyncio.gather(*map(self.release, head_ids[first : first + _GIVEN_BACK_AT_ONCE]))

    # --- one partition --------------------------------------------------------------------------------------------

    def claim(self, partition: PartitionId) -> Claim | None:
        """The claim that an append goes by; None: a gateway that does not lead yet (`acquire`)."""
        return FLEET_CLAIM if self.broker_id == FLEET_BROKER_ID else self._claims.get(partition.head_id)

    async def take(self, partition: PartitionId) -> Claim | None:
        """Lead the partition; None if another broker leads or the partition does not exist.

        Raises StoreUnavailable; KafkaError(NOT_LEADER_OR_FOLLOWER) if this process is not registered.
        """
        return (await self.acquire(partition.head_id))[1]

    async def acquire(
        self, partition: PartitionId, head: HeadImage | None = None
    ) -> tuple[HeadImage | None, Claim | None]:
        """Like `take`, from a head that was read already; also return the latest head (None: no such partition).

        Args:
            partition: a head's id; who leads it leads all that share it.
        """
        if self.broker_id != FLEET_BROKER_ID and self._brokers.own is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this process is not registered as broker {self.broker_id}"
            )
        async with self._locks.setdefault(partition, asyncio.Lock()):
            for _ in range(_ATTEMPTS):
                head = head or await self._index.read_image(partition)
                if head is None:
                    self._claims.pop(partition, None)
                    return None, None
                verdict = await self._decide(partition, head)
                if isinstance(verdict, Lead):
                    return head, verdict.claim
                if isinstance(verdict, Follow) or await self._is_anothers(partition):
                    self._claims.pop(partition, None)
                    return head, None
                head = await self._take_once(partition, head)
        raise StoreUnavailable(f"the leadership of {partition} is contended: try again")

    async def release(self, partition: PartitionId) -> None:
        """Give the partition back to the fleet under a new epoch. What fails here ends with the registration."""
        partition = partition.head_id
        claim = self._claims.pop(partition, None)
        if claim is None or claim.leader_epoch is None:
            return
        condition, actions = handover(
            self.broker_id, claim.leader_epoch, FLEET_BROKER_ID, shares_head=partition.shares_head
        )
        try:
            await self._epochs.keep(partition, claim.leader_epoch, claim.epoch_start)
            await self._log.update(Update(head_key(partition), actions, condition))
        except (ConditionFailed, OutcomeUnknown, StoreUnavailable):
            return

    # --- steps ----------------------------------------------------------------------------------------------------

    async def _decide(self, partition: PartitionId, head: HeadImage) -> Verdict:
        claim = self._claims.get(partition)
        verdict = decide_leadership(head, self.broker_id, claim)
        if isinstance(verdict, AskBrokers):
            is_gone = await self._brokers.find(verdict.broker_id) is None
            verdict = decide_leadership(head, self.broker_id, claim, is_gone)
        return verdict

    async def _is_anothers(self, head_id: PartitionId) -> bool:
        return self._is_balanced and await self.dealt_to(head_id) not in (None, self.broker_id)

    async def _take_once(self, partition: PartitionId, head: HeadImage) -> HeadImage | None:
        """Both steps once. The head after them; None: look again."""
        await self._epochs.keep(partition, head.leader_epoch, head.epoch_start)
        condition, actions = handover(
            head.leader_id, head.leader_epoch, self.broker_id, shares_head=partition.shares_head
        )
        try:
            item: Item | None = await self._log.update(Update(head_key(partition), actions, condition))
        except ConditionFailed as refused:
            return None if refused.current is None else decode_image(partition, refused.current)
        except OutcomeUnknown:
            return None
        taken = decode_image(partition, item or {})
        if self.broker_id != FLEET_BROKER_ID:
            self._claims[partition] = Claim(self.broker_id, taken.leader_epoch, taken.epoch_start)
        return taken
