"""The gateway that should lead a head, and the one that should serve a zone's consumers: the same answer everywhere.

Every process computes it from the registrations that it sees, without asking anyone. Rendezvous hashing (Thaler and
Ravishankar, 1998) lets a head stay where it is unless its gateway goes, or a new one has the highest weight. The heads
of a topic are few, so that chance would deal them unevenly: no gateway gets more of them than its share, rounded up.

Where processes see different registrations for a moment, two gateways name each other, or both themselves. That costs
retries and nothing else: the head has one leader (partition/claims.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from uuid import UUID

from odradek.model.cluster import Broker
from odradek.model.topic_partition import PartitionId, partitions_per_head

_EVEN_UP_TO = 20_000  # weights; more heads than that are even enough by chance


def leader_of(topic_id: UUID, partition_count: int, partition: int, broker_ids: Sequence[int]) -> int | None:
    """The broker that should lead a partition; None: there are no brokers.

    Args:
        partition_count: of the topic, as far as it is known.
        broker_ids: of those that may take heads, in order.
    """
    if not broker_ids:
        return None
    per_head = partitions_per_head(topic_id)
    heads, number = -(-partition_count // per_head), partition // per_head
    if number >= heads or heads * len(broker_ids) > _EVEN_UP_TO:
        return _by_weight(topic_id, number, broker_ids)[0]
    return _dealt(topic_id, heads, tuple(broker_ids))[number]


def nearest(partition: PartitionId, rack: str, brokers: Sequence[Broker]) -> int | None:
    """The broker of a rack that its consumers should read a partition from; None: there is none in it."""
    ids = [broker.broker_id for broker in brokers if broker.rack == rack]
    return _by_weight(partition.topic_id, partition.partition, ids)[0] if ids else None


@lru_cache(maxsize=1024)
def _dealt(topic_id: UUID, heads: int, broker_ids: tuple[int, ...]) -> tuple[int, ...]:
    """The broker of each head of a topic."""
    share = -(-heads // len(broker_ids))
    has: Counter[int] = Counter()
    dealt = []
    for number in range(heads):
        broker_id = next(each for each in _by_weight(topic_id, number, broker_ids) if has[each] < share)
        has[broker_id] += 1
        dealt.append(broker_id)
    return tuple(dealt)


def _by_weight(topic_id: UUID, number: int, broker_ids: Sequence[int]) -> list[int]:
    """The brokers, the one with the highest weight first."""
    name = topic_id.bytes + number.to_bytes(4, "big")
    return sorted(broker_ids, key=lambda each: blake2b(name + each.to_bytes(4, "big"), digest_size=8).digest())
