"""The leaders as metadata shows them: a view of one moment that may be out of date, like all metadata.

    no gateway ever registered     every partition is the fleet's at epoch 0; no head is read
    else                           the heads of the asked partitions, a hundred a request, eventually consistent

A partition whose gateway has stopped is shown as the fleet's: the fleet takes it over at the first append.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from odradek.engine.leaders.brokers import Brokers
from odradek.engine.partition.index import PartitionIndex
from odradek.errors import FormatError, StoreUnavailable
from odradek.model.cluster import FLEET_BROKER_ID, Broker
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

UNKNOWN_LEADER_EPOCH = -1  # clients take it as "do not check"


@dataclass(frozen=True, slots=True)
class LeaderView:
    """Gateways that are alive, by id; leader and epoch of partitions."""

    brokers: tuple[Broker, ...] = ()
    leaders: Mapping[PartitionId, tuple[int, int]] = field(default_factory=dict)
    otherwise: tuple[int, int] = (FLEET_BROKER_ID, 0)

    def leader_of(self, partition: PartitionId) -> tuple[int, int]:
        """Leader id and leader epoch."""
        return self.leaders.get(partition, self.otherwise)


class LeaderViews:
    """Looks at brokers and heads."""

    def __init__(self, index: PartitionIndex, brokers: Brokers) -> None:
        self._index = index
        self._brokers = brokers

    async def view(self, topics: Sequence[Topic] = ()) -> LeaderView:
        """The leaders of all partitions of some topics. Where the store does not answer, nothing is claimed."""
        try:
            if not await self._brokers.ever():
                return LeaderView()
            alive = [found.broker for found in await self._brokers.alive()]
            partitions = [PartitionId(topic.topic_id, n) for topic in topics for n in range(topic.partition_count)]
            heads = await self._index.read_heads(partitions, consistent=False, whole=False) if partitions else []
        except (StoreUnavailable, FormatError):
            return LeaderView(otherwise=(FLEET_BROKER_ID, UNKNOWN_LEADER_EPOCH))
        ids = {broker.broker_id for broker in alive}
        leaders = {
            partition: (head.leader_id if head.leader_id in ids else FLEET_BROKER_ID, head.leader_epoch)
            for partition, head in zip(partitions, heads, strict=True)
            if head is not None
        }
        return LeaderView(tuple(alive), leaders)
