"""Which gateway should lead what: evenly dealt, the same everywhere, and few heads move."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from odradek.engine.leaders.balance import leader_of, nearest
from odradek.model.cluster import Broker
from odradek.model.topic_partition import PartitionId, new_topic_id

ALONE = new_topic_id(bytes(range(16)), 1)
SHARED = new_topic_id(bytes(range(16)), 8)


def dealt(topic_id: UUID, count: int, ids: list[int]) -> list[int]:
    leaders = [leader_of(topic_id, count, number, ids) for number in range(count)]
    assert None not in leaders
    return leaders  # type: ignore[return-value]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 24, 100, 333])
@pytest.mark.parametrize("brokers", [1, 2, 3, 5])
def test_no_gateway_has_more_heads_of_a_topic_than_its_share(count: int, brokers: int) -> None:
    has = Counter(dealt(ALONE, count, list(range(1, brokers + 1))))
    assert max(has.values()) <= -(-count // brokers)


def test_partitions_that_share_a_head_have_one_leader() -> None:
    leaders = dealt(SHARED, 24, [1, 2, 3])
    assert [len(set(leaders[first : first + 8])) for first in (0, 8, 16)] == [1, 1, 1]
    assert sorted(Counter(leaders).values()) == [8, 8, 8]


@pytest.mark.parametrize("stopped", [1, 2, 3, 4])
def test_few_heads_move_when_a_gateway_goes_or_comes(stopped: int) -> None:
    before = dealt(ALONE, 400, [1, 2, 3, 4])
    after = dealt(ALONE, 400, [broker_id for broker_id in (1, 2, 3, 4) if broker_id != stopped])
    moved = sum(old != new for old, new in zip(before, after, strict=True) if old != stopped)
    assert moved <= 60, "of the 300 that did not have to"


def test_very_many_heads_are_even_enough_without_being_dealt() -> None:
    has = Counter(leader_of(ALONE, 100_000, number, [1, 2, 3, 4]) for number in range(0, 100_000, 10))
    assert max(has.values()) < 1.1 * min(has.values())


def test_a_partition_beyond_the_known_ones_has_a_leader_too() -> None:
    """A topic has grown, and the copy in the cache does not know it yet."""
    assert leader_of(ALONE, 3, 7, [1, 2]) in (1, 2)
    assert leader_of(ALONE, 0, 0, [5]) == 5
    assert leader_of(ALONE, 3, 0, []) is None


def test_consumers_read_from_a_gateway_of_their_own_rack_and_not_all_from_one() -> None:
    brokers = [Broker(n, "h", 9092, rack) for n, rack in ((1, "a"), (2, "b"), (3, "b"), (4, None))]
    nearest_ids = [nearest(PartitionId(ALONE, number), "b", brokers) for number in range(40)]
    assert set(nearest_ids) == {2, 3}
    assert nearest(PartitionId(ALONE, 0), "c", brokers) is None
