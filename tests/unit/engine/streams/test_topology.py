"""A topology over the catalog: readiness, numbers of tasks, internal topics."""

from __future__ import annotations

from uuid import UUID

import pytest
from odradek.engine.streams.topology import ConfiguredTopology, configure
from odradek.errors import ErrorCode, KafkaError
from odradek.model.streams import InternalTopic, StreamsStatus, Subtopology, TaskId, Topology
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

from tests.support.clients.streams_member import COUNTING


def catalog(**counts: int) -> dict[str, Topic]:
    named = {name.replace("_", "-"): count for name, count in counts.items()}
    return {name: Topic(name, UUID(int=at + 1), count) for at, (name, count) in enumerate(sorted(named.items()))}


def status(configured: ConfiguredTopology) -> StreamsStatus | None:
    return configured.status.code if configured.status else None


def created(configured: ConfiguredTopology) -> dict[str, int]:
    return {topic.name: topic.partitions for topic in configured.missing_topics}


def test_internal_topics_have_the_sources_partitions_and_are_to_be_created_with_their_configurations() -> None:
    configured = configure(COUNTING, catalog(orders=4))
    assert status(configured) is StreamsStatus.MISSING_INTERNAL_TOPICS
    assert created(configured) == {"app-by-customer": 4, "app-counts": 4}
    assert dict(configured.missing_topics[1].configs) == {"cleanup.policy": "compact"}
    assert "app-by-customer, app-counts" in configured.status.detail  # type: ignore[union-attr]


def test_a_topology_with_all_topics_is_ready() -> None:
    configured = configure(COUNTING, catalog(orders=4, app_by_customer=4, app_counts=4, other=9))
    assert configured.is_ready
    assert configured.task_counts == {"0": 4, "1": 4}
    assert configured.stateful == {"1"}


def test_without_its_source_a_topology_waits() -> None:
    configured = configure(COUNTING, catalog(app_by_customer=4))
    assert status(configured) is StreamsStatus.MISSING_SOURCE_TOPICS
    assert configured.missing_topics == ()
    assert "orders" in configured.status.detail  # type: ignore[union-attr]


def test_an_internal_topic_with_another_number_of_partitions_is_reported() -> None:
    configured = configure(COUNTING, catalog(orders=4, app_by_customer=4, app_counts=3))
    assert status(configured) is StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS
    assert "app-counts" in configured.status.detail  # type: ignore[union-attr]
    assert "expected 4, found 3" in configured.status.detail  # type: ignore[union-attr]


def test_a_task_reads_its_partition_of_each_source_that_has_it() -> None:
    topology = Topology(0, (Subtopology("0", source_topics=("long", "short")),))
    topics = catalog(long=3, short=1)
    configured = configure(topology, topics)
    assert configured.task_counts == {"0": 3}
    first, third = (configured.partitions_of(TaskId("0", number)) for number in (0, 2))
    assert first == {PartitionId(topics["long"].topic_id, 0), PartitionId(topics["short"].topic_id, 0)}
    assert third == {PartitionId(topics["long"].topic_id, 2)}


def join(*repartitions: InternalTopic, sources: tuple[str, ...] = ()) -> Topology:
    """Subtopology 0 writes to repartition topics; 1 joins them with each other and with topics."""
    names = tuple(topic.name for topic in repartitions)
    return Topology(
        0,
        (
            Subtopology("0", source_topics=("input",), repartition_sink_topics=names),
            Subtopology(
                "1",
                source_topics=sources,
                repartition_source_topics=repartitions,
                copartition_groups=((*sources, *names),),
            ),
        ),
    )


def test_a_repartition_topic_follows_the_topic_that_it_is_joined_with() -> None:
    configured = configure(join(InternalTopic("r"), sources=("table",)), catalog(input=2, table=6))
    assert created(configured) == {"r": 6}
    assert configured.task_counts == {"0": 2, "1": 6}


def test_joined_repartition_topics_follow_the_one_with_a_given_number() -> None:
    configured = configure(join(InternalTopic("r"), InternalTopic("s", partitions=5)), catalog(input=2))
    assert created(configured) == {"r": 5, "s": 5}


def test_joined_repartition_topics_without_a_given_number_have_the_same() -> None:
    assert created(configure(join(InternalTopic("r"), InternalTopic("s")), catalog(input=2))) == {"r": 2, "s": 2}


@pytest.mark.parametrize(
    ("topology", "topics"),
    [
        (join(InternalTopic("r"), sources=("one", "two")), catalog(input=2, one=3, two=4)),
        (join(InternalTopic("r", partitions=5), sources=("one",)), catalog(input=2, one=3)),
        (join(InternalTopic("r", partitions=5), InternalTopic("s", partitions=6)), catalog(input=2)),
    ],
)
def test_what_cannot_be_joined_is_reported(topology: Topology, topics: dict[str, Topic]) -> None:
    configured = configure(topology, topics)
    assert status(configured) is StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS
    assert configured.task_counts == {}


def test_a_given_number_is_compared_with_the_topic_that_exists() -> None:
    configured = configure(join(InternalTopic("r", partitions=5)), catalog(input=2, r=6))
    assert status(configured) is StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS


def test_numbers_of_other_groups_do_not_matter() -> None:
    other = Subtopology("2", source_topics=("more",), repartition_source_topics=(InternalTopic("q", partitions=9),))
    topology = join(InternalTopic("r", partitions=5))
    configured = configure(Topology(0, (*topology.subtopologies, other)), catalog(input=2, more=1))
    assert created(configured) == {"q": 9, "r": 5}


def test_a_chain_of_repartition_topics_is_followed_to_its_source() -> None:
    topology = Topology(
        0,
        (
            Subtopology("0", repartition_source_topics=(InternalTopic("b"),), repartition_sink_topics=("c",)),
            Subtopology("1", repartition_source_topics=(InternalTopic("c"),)),
            Subtopology("2", source_topics=("input",), repartition_sink_topics=("b",)),
        ),
    )
    assert created(configure(topology, catalog(input=7))) == {"b": 7, "c": 7}


@pytest.mark.parametrize(
    "topology",
    [
        Topology(
            0, (Subtopology("0", repartition_source_topics=(InternalTopic("a"),), repartition_sink_topics=("a",)),)
        ),
        Topology(0, (Subtopology("0", repartition_source_topics=(InternalTopic("a"),)),)),
    ],
)
def test_a_topology_whose_counts_nobody_decides_is_invalid(topology: Topology) -> None:
    with pytest.raises(KafkaError) as raised:
        configure(topology, {})
    assert raised.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
