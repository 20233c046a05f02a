"""A scenario: who lives in a world and how. scenario.py draws them from the seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.store.ports import Fates

DEAD_TOPIC = "given-up"  # of triggers


@dataclass(frozen=True)
class TopicPlan:
    """A topic that is there from the start."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    keys: int = 0  # different keys of what producers send; 0: no keys, no tombstones


@dataclass(frozen=True)
class Scenario:
    """One run's cast.

    Attributes:
        records_of: how many records each producer sends.
        pace_s: about how long an actor rests between two steps.
        churn: topics that an admin creates, grows and deletes.
    """

    profile: str
    topics: tuple[TopicPlan, ...]
    producers: int = 3
    idempotent_share: float = 0.7
    records_of: int = 30
    conditional: int = 0
    together: float = 0.2  # of the producers' requests: batches for two partitions
    in_parts: float = 0.0  # of their batches of several records: they are two batches for one partition
    overtaken: float = 0.0  # of their requests: they are held up on the way, and later ones arrive before them
    tombstones: float = 0.15  # of their records with keys
    epoch_batches: tuple[int, int] = (4, 12)  # after so many a producer may go on under its next epoch, half-open
    consumers: int = 1  # a topic
    consumers_rest_s: float = 120.0  # at the end of the log, at most
    plans_in_bulk: bool = False  # whether consumers also read whole ranges, as a Spark job plans them
    unruly: int = 0  # connections whose producers send batches without their predecessors, and epochs over each other
    group_members: int = 0
    keyed_clients: int = 0  # the real client's producers, with keys, of the first topic
    growths: int = 0  # how often the first topic's partitions are multiplied
    grows: bool = False  # whether topics get more partitions
    group_turns: int = 40
    group_assignor: str | None = None  # that members of the consumer protocol ask for
    grows_at_rest: bool = False  # the first topic grows once nothing fails and nobody comes or goes
    classic_members: int = 0  # of a group of the classic protocol
    classic_rebalance_ms: int = 20_000
    streams_members: int = 0
    streams_standbys: int = 0
    share_workers: int = 0
    share_turns: int = 30
    share_leaves: float = 0.03  # of the turns
    share_rejects: float = 0.04  # of the records
    share_deletions: int = 0  # attempts to delete the group
    group_configs: Mapping[str, str] = field(default_factory=dict)
    triggers: int = 0  # of the last topic
    trigger_factor: int = 1  # parallelization factor
    trigger_options: Mapping[str, Any] = field(default_factory=dict)  # of all of them, beside those that are drawn
    trigger_sweeps: bool = True
    trigger_queue_is_kind: bool = False  # it loses and delays nothing
    admins: int = 0
    admin_turns: int = 12
    churn: tuple[str, ...] = ()
    chains: tuple[tuple[str, str], ...] = ()  # (source, sink): transactors copy one to the other
    transactors: int = 0  # instances a chain
    transactor_turns: int = 20
    transactional_members: tuple[str, ...] = ()  # of groups that read the first chain's source: "consumer", "classic"
    bump: bool = True
    tables: bool = True  # topics are tables where the seed is odd
    typed: bool = False  # in every run, not in some, topics are tables whose files make values of typed columns
    iceberg: bool = False  # in every run of tables, not in some, they are Iceberg tables, too
    closes_by_time: bool = False  # in every run of tables, not in some, files close by time and by flushes
    mischief: int = 1  # of transactors
    deleters: int = 0
    deletes_all: float = 0.2  # of their requests: up to the high watermark
    merged: int = 0  # producers of the first topic whose requests one gateway merges
    merged_ms: int = 0  # between two of its calls
    narrow: int = 1  # an append takes so many times less into one update than DynamoDB allows
    gateways: int = 0
    gateway_ids: int = 0  # broker ids among them; 0: each has its own
    gateway_turns: int = 3
    stock_clients: tuple[str, ...] = ()  # producers that follow the rules of stock clients, by name (stock/)
    stock_gateways: int = 0
    stock_leads: bool = False  # whether the gateways are brokers of their own
    stock_gateway_life_s: float = 0.0
    stock_batches: int = 40  # of each client
    stock_silence_s: float = 0.0
    stock_recreations: int = 0
    maintainers: int = 0
    maintainer_turns: int = 12
    maintainer_pace_s: float = 600.0
    sweepers: int = 0
    pace_s: float = 0.05
    begins_s: float = 0.0  # all rest before that: the run may then be over the end of an hour
    write_units: int = 0  # of a partition key a second, as DynamoDB throttles; 0: never
    fates: Fates = field(default_factory=Fates)
    settings: Mapping[str, Any] = field(default_factory=dict)
