"""Members of a streams group: as those of consumer groups, but by tasks, with standbys, some in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.model.streams import InternalTopic, Subtopology, Topology
from odradek.model.topic_partition import PartitionId

from tests.simulation.actors.group_members import GroupMember
from tests.simulation.world import World
from tests.support.clients.streams_member import StreamsMember

_PROCESSES = 2


def topology_of(topics: list[str]) -> Topology:
    """Reads the topics, regroups, counts."""
    return Topology(
        0,
        (
            Subtopology("0", source_topics=tuple(sorted(topics)), repartition_sink_topics=("app-regrouped",)),
            Subtopology(
                "1",
                repartition_source_topics=(InternalTopic("app-regrouped"),),
                changelog_topics=(InternalTopic("app-counts", configs=(("cleanup.policy", "compact"),)),),
            ),
        ),
    )


class StreamsGroupMember(GroupMember):
    """One place in a streams group; every life is a new member, and every second place is in one process."""

    def __init__(
        self, world: World, number: int, group_id: str, topics: list[str], *, turns: int, pace_s: float
    ) -> None:
        super().__init__(world, f"s{number}", group_id, topics, turns=turns, pace_s=pace_s)
        self._process_id = f"process-{number % _PROCESSES}"

    def _member(self, engine: Engine) -> Any:
        return _Client(
            engine,
            f"{self._lives}/{self._name}",
            topology_of(self._topics),
            group_id=self._group_id,
            process_id=self._process_id,
            rebalance_timeout_ms=self._world.rng.choice((500, 60_000)),
            ids=lambda name: [
                topic_id for topic_id, topic_name in self._world.ledger.topic_names.items() if topic_name == name
            ],
        )


class _Client(StreamsMember):
    """A member that says which partitions it owns, as `Member` does."""

    def __init__(self, *args: Any, ids: Callable[[str], list[UUID]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.beats = 0
        self._ids = ids

    @property
    def owned(self) -> frozenset[PartitionId]:
        """The partitions of the active tasks that it runs."""
        sources = {subtopology.subtopology_id: subtopology.sources for subtopology in self.topology.subtopologies}
        return frozenset(
            PartitionId(topic_id, task.partition)
            for task in self.tasks.active
            for name in sources[task.subtopology_id]
            for topic_id in self._ids(name)
        )

    async def beat(self, *, lose_answer: bool = False, keep: Any = None, shutdown: bool = False) -> ErrorCode:
        self.beats += 1
        return await super().beat(lose_answer=lose_answer, keep=self.tasks if keep else None, shutdown=shutdown)
