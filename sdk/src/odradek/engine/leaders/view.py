"""The leaders as metadata shows them: a view of one moment that may be out of date, like all metadata.

    no gateway ever registered     every partition is the fleet's at epoch 0; no head is read
    else                           the heads of the asked partitions, a hundred a request, eventually consistent

A partition whose gateway has stopped, or is about to, is shown by a function as the fleet's, which takes it over at the
first append, and by a gateway as led by the one to which it is dealt (balance.py). Where gateways stand in several
racks (zones), a partition has one of them in each as its replica, for consumers of that rack (KIP-392).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.engine.leaders.balance import leader_of, nearest
from odradek.engine.leaders.brokers import Brokers
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import PartitionIndex
from odradek.errors import FormatError, StoreUnavailable
from odradek.model.cluster import FLEET_BROKER_ID, Broker
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

UNKNOWN_LEADER_EPOCH = -1  # clients take it as "do not check"


@dataclass(frozen=True, slots=True)
class LeaderView:
    """Gateways that are alive and stay, by id; leader and epoch of partitions.

    Attributes:
        is_going: the answering gateway is about to leave, and the others go on: clients should not come to it.
    """

    brokers: tuple[Broker, ...] = ()
    leaders: Mapping[PartitionId, tuple[int, int]] = field(default_factory=dict)
    otherwise: tuple[int, int] = (FLEET_BROKER_ID, 0)
    is_going: bool = False

    def leader_of(self, partition: PartitionId) -> tuple[int, int]:
        """Leader id and leader epoch."""
        return self.leaders.get(partition, self.otherwise)

    def read_replicas(self, partition: PartitionId, leader_id: int) -> list[int]:
        """The gateway of each rack but the leader's own that consumers of that rack should read from."""
        racks = {broker.broker_id: broker.rack for broker in self.brokers}
        others = sorted({rack for rack in racks.values() if rack is not None} - {racks.get(leader_id)})
        found = (nearest(partition, rack, self.brokers) for rack in others)
        return [broker_id for broker_id in found if broker_id is not None]


class LeaderViews:
    """Looks at brokers and heads, for the broker of this id."""

    def __init__(self, index: PartitionIndex, brokers: Brokers, broker_id: int = FLEET_BROKER_ID) -> None:
        self._index = index
        self._brokers = brokers
        self._broker_id = broker_id

    async def view(self, topics: Sequence[Topic] = ()) -> LeaderView:
        """The leaders of all partitions of some topics. Where the store does not answer, nothing is claimed."""
        try:
            if not await self._brokers.ever():
                return LeaderView()
            takers = await self._brokers.takers()
            partitions = [PartitionId(topic.topic_id, n) for topic in topics for n in range(topic.partition_count)]
            heads = await self._index.read_heads(partitions, consistent=False, whole=False) if partitions else []
        except (StoreUnavailable, FormatError):
            return LeaderView(otherwise=(FLEET_BROKER_ID, UNKNOWN_LEADER_EPOCH))
        own = self._brokers.own
        is_going = own is not None and own.is_going and bool(takers)
        leaders = self._leaders(topics, zip(partitions, heads, strict=True), [each.broker_id for each in takers])
        return LeaderView(tuple(takers), leaders, is_going=is_going)

    async def nearest(self, partition: PartitionId, rack: str) -> int | None:
        """The gateway from which consumers of a rack should read; None: there is none in it, or nobody knows."""
        try:
            return nearest(partition, rack, await self._brokers.takers())
        except (StoreUnavailable, FormatError):
            return None

    def _leaders(
        self,
        topics: Sequence[Topic],
        heads: Iterable[tuple[PartitionId, PartitionHead | None]],
        takers: Sequence[int],
    ) -> dict[PartitionId, tuple[int, int]]:
        counts = {topic.topic_id: topic.partition_count for topic in topics}
        leaders = {}
        for partition, head in heads:
            if head is None:
                continue
            leader_id = head.leader_id if head.leader_id in takers else FLEET_BROKER_ID
            if leader_id == FLEET_BROKER_ID != self._broker_id:
                count = counts[partition.topic_id]
                leader_id = leader_of(partition.topic_id, count, partition.partition, takers) or FLEET_BROKER_ID
            leaders[partition] = leader_id, head.leader_epoch
        return leaders
