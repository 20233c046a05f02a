"""The engine's face: one object over the three tables and the object store.

    produce, fetch, list_offsets   the log            (append.py, fetch.py, list_offsets.py)
    topics                         the catalog        (topics.py)
    producer_ids                   idempotence        (producer_ids.py)
    transactions                   all or nothing     (transactions.py)
    numbered_batches               once by number     (numbered_batches.py)
    groups, offsets                consumer groups    (groups.py, offsets.py)
    share_groups, share            queues over a log  (share/groups.py, share/fetch.py)
    streams_groups                 streams groups     (streams/groups.py)
    users, acls                    access control     (users.py, acls.py)
    leaders, brokers, epochs       leadership         (leaders.py, brokers.py, leader_epochs.py)

An engine holds no state that matters: any number of them, in any number of processes, may serve one store. Most parts
are imported and created at their first use: a cold function waits for nothing that it will not call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

from odradek.engine.access.acls import Acls
from odradek.engine.access.client_quotas import ClientQuotas
from odradek.engine.access.quotas import Quotas
from odradek.engine.append.wal import Wal
from odradek.engine.catalog.topics import Topics
from odradek.engine.damage import Damages
from odradek.engine.leaders.brokers import Brokers
from odradek.engine.leaders.leaders import Leaders
from odradek.engine.marks import Marks
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.leader_epochs import LeaderEpochs
from odradek.engine.tools import Tools
from odradek.errors import FormatError, StoreUnavailable
from odradek.model.cluster import FLEET_BROKER_ID, Broker
from odradek.model.log import (
    DeleteRecordsPartition,
    DeleteRecordsResult,
    EpochEndPartition,
    EpochEndResult,
    FetchPartition,
    FetchResult,
    ListOffsetsPartition,
    ListOffsetsResult,
    ProducePartition,
    ProduceResult,
)
from odradek.model.topic import Topic
from odradek.ports.clock import Clock
from odradek.ports.meter import Meter
from odradek.ports.object_store import ObjectStore
from odradek.ports.rng import Rng
from odradek.ports.table_catalog import TableCatalog
from odradek.ports.tables import Tables
from odradek.ports.task_queue import TaskQueue
from odradek.ports.value_schemas import ValueSchemas
from odradek.settings import Settings

if TYPE_CHECKING:
    from odradek.engine.access.users import Users
    from odradek.engine.append.append import Appender, OnResult
    from odradek.engine.append.upload import Uploads
    from odradek.engine.catalog.producer_ids import ProducerIds
    from odradek.engine.classic.groups import ClassicGroups
    from odradek.engine.groups.configs import GroupConfigs
    from odradek.engine.groups.groups import Groups
    from odradek.engine.groups.growth_holds import GrowthHolds
    from odradek.engine.iceberg.follower import TableFollower
    from odradek.engine.leaders.view import LeaderView, LeaderViews
    from odradek.engine.maintenance.backlog import Backlogs
    from odradek.engine.maintenance.maintenance import Maintenance, Upkeep
    from odradek.engine.maintenance.merge import Merger
    from odradek.engine.maintenance.orphans import Orphans
    from odradek.engine.maintenance.sweep import Sweep
    from odradek.engine.offsets.offsets import GroupOffsets
    from odradek.engine.partition.maintenance_lease import MaintenanceLeases
    from odradek.engine.read.delete_records import RecordDeleter
    from odradek.engine.read.epoch_end_offsets import EpochEndLister
    from odradek.engine.read.fetch import Fetcher
    from odradek.engine.read.list_offsets import OffsetLister
    from odradek.engine.read.log_reader import LogReader, PieceReader
    from odradek.engine.read.looks import Looks
    from odradek.engine.read.partition_states import PartitionStates
    from odradek.engine.read.quiet import QuietFetches
    from odradek.engine.read.read_replicas import ReadReplicas
    from odradek.engine.read.segment_reader import SegmentIndexes
    from odradek.engine.share.fetch import ShareFetcher
    from odradek.engine.share.groups import ShareGroups
    from odradek.engine.share.offsets import ShareOffsets
    from odradek.engine.share.windows import SharePartitions
    from odradek.engine.streams.groups import StreamsGroups
    from odradek.engine.transactions.numbered_batches import NumberedBatches
    from odradek.engine.transactions.transactions import Transactions


class Engine:
    """Kafka's log over a store.

    Args:
        tables: log (heads, index rows, producer rows, small WAL items), groups (groups, members, leases with committed
            offsets), catalog (topics, configs, producer ids), and transactions across them.
        objects: WAL objects and segments.
        clock, rng: time and random numbers.
        settings: the operator's settings.
        broker_id: the broker as which it leads partitions: the fleet of functions, or a gateway (`leaders.register`).
        wakes: the queue that wakes triggers; None: the sweep of triggers finds what this engine appends.
    """

    def __init__(
        self,
        *,
        tables: Tables,
        objects: ObjectStore,
        clock: Clock,
        rng: Rng,
        settings: Settings | None = None,
        broker_id: int = FLEET_BROKER_ID,
        wakes: TaskQueue | None = None,
    ) -> None:
        self.settings = settings = settings or Settings()
        self.tools = tools = Tools(tables, objects, clock, rng, settings, wakes)
        self.clock = clock
        self.rng = rng
        self.catalog = tables.catalog
        self.objects = objects
        self.index = PartitionIndex(tables.log, self.settings)
        self.marks = Marks(tables.log, wakes)
        self.wal = Wal(tables.log, objects, clock, rng, self.settings)
        self.topics = Topics(tables.catalog, self.index, clock, rng, self.settings)
        self.acls = Acls(tables.catalog, clock, rng, self.settings)
        self.brokers = Brokers(tables.catalog, clock, rng, self.settings)
        self.epochs = LeaderEpochs(tables.log)
        self.leaders = Leaders(tools, self.index, self.brokers, self.epochs, self.topics, broker_id)
        self.client_quotas = ClientQuotas(tables.catalog, clock, rng, self.settings)
        self.quotas = Quotas(clock, self.settings, self.client_quotas)

    def keep_tables(self, catalog: TableCatalog | None) -> Self:
        """Let maintenance keep the Iceberg tables of topics in this catalog; call it before `maintenance` is used.

        Args:
            catalog: None: it keeps none, as without this call.
        """
        self.tools = replace(self.tools, table_catalog=catalog)
        return self

    def know_schemas(self, schemas: ValueSchemas) -> Self:
        """Let maintenance give tables the typed columns of this registry; call it before `maintenance` is used."""
        self.tools = replace(self.tools, value_schemas=schemas)
        return self

    def count_damage(self, meter: Meter) -> Self:
        """Count the damage that this process meets; call it before the parts that read are used."""
        self.tools = replace(self.tools, damages=Damages(meter))
        return self

    def use_threads(self) -> Self:
        """Let maintenance do long computations in threads; call it before `maintenance` is used."""
        self.tools = replace(self.tools, uses_threads=True)
        return self

    # --- parts that not every function needs: imported and created at their first use -------------------------------

    @cached_property
    def appender(self) -> Appender:
        from odradek.engine.append.append import Appender

        return Appender(self.tools, self.index, self.leaders, self.wal, self.topics, self.marks)

    @cached_property
    def segments(self) -> SegmentIndexes:
        from odradek.engine.read.segment_reader import SegmentIndexes

        return SegmentIndexes(self.objects, self.tools.damages)

    @cached_property
    def reader(self) -> LogReader:
        from odradek.engine.read.log_reader import LogReader

        return LogReader(self.index, self.segments)

    @cached_property
    def pieces(self) -> PieceReader:
        from odradek.engine.read.log_reader import PieceReader

        return PieceReader(self.wal, self.settings)

    @cached_property
    def fetcher(self) -> Fetcher:
        from odradek.engine.read.fetch import Fetcher

        return Fetcher(self.tools, self.index, self.reader, self.pieces, self.topics, self.epochs, self._looks)

    @cached_property
    def quiet_fetches(self) -> QuietFetches:
        from odradek.engine.read.quiet import QuietFetches

        return QuietFetches(self.index, self.topics, self._looks, self.clock)

    @cached_property
    def _looks(self) -> Looks:
        from odradek.engine.read.looks import Looks

        looks = Looks(self.index, self.clock, self.settings)
        self.marks.on_append = looks.appended
        return looks

    @cached_property
    def _read_replicas(self) -> ReadReplicas:
        from odradek.engine.read.read_replicas import ReadReplicas

        return ReadReplicas(self.topics, self.index, self._leader_views)

    @cached_property
    def producer_ids(self) -> ProducerIds:
        from odradek.engine.catalog.producer_ids import ProducerIds

        return ProducerIds(self.catalog, self.clock, self.rng, self.settings)

    @cached_property
    def group_configs(self) -> GroupConfigs:
        from odradek.engine.groups.configs import GroupConfigs

        return GroupConfigs(self.catalog, self.clock, self.rng, self.settings)

    @cached_property
    def share_groups(self) -> ShareGroups:
        from odradek.engine.share.groups import ShareGroups

        return ShareGroups(self.tools, self.topics, self.group_configs)

    @cached_property
    def streams_groups(self) -> StreamsGroups:
        from odradek.engine.streams.groups import StreamsGroups

        return StreamsGroups(self.tools, self.topics, self.group_configs)

    @cached_property
    def growth_holds(self) -> GrowthHolds:
        from odradek.engine.groups.growth_holds import GrowthHolds

        return GrowthHolds(self.tools, self.topics, self.index)

    @cached_property
    def groups(self) -> Groups:
        from odradek.engine.groups.groups import Groups

        return Groups(self.tools, self.topics, self.group_configs, self.growth_holds, self.share_groups.delete_items)

    @cached_property
    def classic_groups(self) -> ClassicGroups:
        from odradek.engine.classic.groups import ClassicGroups
        from odradek.engine.classic.held_assignments import HeldAssignments

        held = HeldAssignments(self.growth_holds, self.topics, self.clock)
        return ClassicGroups(self.tools.tables.groups, self.clock, self.rng, self.settings, held)

    @cached_property
    def users(self) -> Users:
        from odradek.engine.access.users import Users

        return Users(self.catalog, self.clock, self.rng)

    @cached_property
    def offsets(self) -> GroupOffsets:
        from odradek.engine.offsets.offsets import GroupOffsets

        return GroupOffsets(self.tools.tables.groups, self.topics, self.clock, self.rng, self.settings)

    @cached_property
    def _leader_views(self) -> LeaderViews:
        from odradek.engine.leaders.view import LeaderViews

        return LeaderViews(self.index, self.brokers, self.leaders.broker_id)

    @cached_property
    def _uploads(self) -> Uploads:
        from odradek.engine.append.upload import Uploads

        return Uploads(self.wal, self.topics, self.clock, self.rng, self.settings)

    @cached_property
    def transactions(self) -> Transactions:
        from odradek.engine.transactions.transactions import Transactions

        return Transactions(self.tools, self.index, self.topics, self.producer_ids, self.offsets, self._uploads)

    @cached_property
    def numbered_batches(self) -> NumberedBatches:
        from odradek.engine.transactions.numbered_batches import NumberedBatches

        return NumberedBatches(self.tools, self.index, self._uploads)

    @cached_property
    def lister(self) -> OffsetLister:
        from odradek.engine.read.list_offsets import OffsetLister
        from odradek.engine.read.timestamp_lookup import TimestampLookup

        lookups = TimestampLookup(self.index, self.segments, self.pieces)
        return OffsetLister(self.index, lookups, self.topics, self.clock, self.rng)

    @cached_property
    def share_windows(self) -> SharePartitions:
        from odradek.engine.share.windows import SharePartitions

        return SharePartitions(self.tools.tables, self.lister, self.clock, self.rng, self.settings)

    @cached_property
    def share_offsets(self) -> ShareOffsets:
        from odradek.engine.share.offsets import ShareOffsets

        return ShareOffsets(self.tools, self.share_windows, self.topics, self.lister)

    @cached_property
    def share(self) -> ShareFetcher:
        from odradek.engine.share.dead_letters import DeadLetters
        from odradek.engine.share.fetch import ShareFetcher
        from odradek.engine.share.sessions import ShareSessions

        return ShareFetcher(
            self.tools,
            self.fetcher,
            self.share_windows,
            ShareSessions(self.tools.tables.groups, self.clock, self.rng),
            self.group_configs,
            DeadLetters(self.fetch, self.numbered_batches, self.topics, self.clock),
            self.topics,
        )

    @cached_property
    def partition_states(self) -> PartitionStates:
        from odradek.engine.read.partition_states import PartitionStates

        return PartitionStates(self.index)

    @cached_property
    def _epoch_ends(self) -> EpochEndLister:
        from odradek.engine.read.epoch_end_offsets import EpochEndLister

        return EpochEndLister(self.index, self.epochs, self.topics)

    @cached_property
    def _deleter(self) -> RecordDeleter:
        from odradek.engine.read.delete_records import RecordDeleter

        return RecordDeleter(self.index, self.topics, self.clock, self.rng, self.settings)

    @cached_property
    def leases(self) -> MaintenanceLeases:
        from odradek.engine.partition.maintenance_lease import MaintenanceLeases

        return MaintenanceLeases(self.tools.tables.log, self.clock, self.rng, self.settings)

    @cached_property
    def tables(self) -> TableFollower:
        from odradek.engine.iceberg.follower import TableFollower

        return TableFollower(self.tools, self.index, self.leases, self.tools.table_catalog)

    @cached_property
    def orphans(self) -> Orphans:
        from odradek.engine.maintenance.orphans import Orphans

        return Orphans(self.index, self.objects, self.leases)

    @cached_property
    def sweep(self) -> Sweep:
        from odradek.engine.maintenance.sweep import Sweep
        from odradek.engine.maintenance.wal_uploads import WalUploads

        return Sweep(
            self.tools,
            self.index,
            WalUploads(self.tools.tables.log, self.objects, self.clock, self.rng),
            self.topics,
        )

    @cached_property
    def merger(self) -> Merger:
        from odradek.engine.maintenance.merge import Merger

        return Merger(self.tools, self.index, self.pieces, self.epochs, self.leases)

    @cached_property
    def backlogs(self) -> Backlogs:
        from odradek.engine.maintenance.backlog import Backlogs
        from odradek.engine.maintenance.group_lag import GroupLagReader

        lags = GroupLagReader(self.tools.tables.groups, self.groups, self.offsets)
        return Backlogs(self.catalog, self.index, self.topics, lags, self.clock, self.settings)

    @cached_property
    def maintenance(self) -> Maintenance:
        from odradek.engine.compaction.compactor import Compactor
        from odradek.engine.maintenance.catch_up import TableCatchUp
        from odradek.engine.maintenance.maintenance import Maintenance
        from odradek.engine.maintenance.producer_expiry import ProducerExpiry
        from odradek.engine.maintenance.retention import Retention
        from odradek.engine.maintenance.roll import Roll

        upkeeps: list[Upkeep] = [
            self.orphans,
            Roll(self.index, self.clock),
            Retention(self.index, self.objects, self.leases, self.clock, self.settings.retention_delay_ms),
            self.merger,
            TableCatchUp(self.tools, self.index, self.leases, self.merger),
            ProducerExpiry(self.tools.tables.log, self.clock, self.settings),
            Compactor(self.tools, self.index, self.leases),
        ]
        return Maintenance(self.tools, self.index, self.topics, self.leases, upkeeps, self.sweep, self.transactions)

    # --- the log ----------------------------------------------------------------------------------------------------

    async def produce(
        self,
        partitions: Sequence[ProducePartition],
        *,
        transactional_id: str | None = None,
        announces: bool = True,
        on_result: OnResult | None = None,
    ) -> list[ProduceResult]:
        """Append batches; results in the order of `partitions`. Failures are results, never exceptions.

        The order in which calls begin is the order of a producer's batches: nothing is awaited before it is fixed.

        Args:
            transactional_id: add the batches to its open transaction instead (base offsets: see transactions.py).
            announces: True if that adds new partitions to the transaction (KIP-890); False: AddPartitionsToTxn did.
            on_result: called with each result and its position as soon as it is known; not in a transaction.
        """
        if transactional_id is not None:
            return await self.transactions.produce(transactional_id, partitions, announces=announces)
        return await self.appender.produce(partitions, on_result)

    async def fetch(
        self,
        partitions: Sequence[FetchPartition],
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 50 * 1024 * 1024,
    ) -> list[FetchResult]:
        """Read batches; results in the order of `partitions`; waits up to `max_wait_ms` for `min_bytes`.

        Returns at least one batch if there is any, however large; otherwise within `max_bytes` and each `max_bytes`.
        """
        return await self.fetcher.fetch(partitions, max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes)

    async def list_offsets(self, partitions: Sequence[ListOffsetsPartition]) -> list[ListOffsetsResult]:
        """Offsets by timestamp; results in the order of `partitions`."""
        return await self.lister.list_offsets(partitions)

    async def leader_view(self, topics: Sequence[Topic]) -> LeaderView:
        """Return the live gateways, and the leaders of the partitions of some topics."""
        return await self._leader_views.view(topics)

    async def move_reads(self, partitions: Sequence[FetchPartition], rack: str) -> list[FetchResult | None]:
        """Return results that name the gateway of a rack to read from instead; None: there is none, read here."""
        return await self._read_replicas.move(partitions, rack)

    async def broker(self, broker_id: int) -> Broker | None:
        """Return a live gateway; None for other ids, and if the store does not answer."""
        try:
            found = await self.brokers.find(broker_id)
        except (StoreUnavailable, FormatError):
            return None
        return None if found is None else found.broker

    async def epoch_end_offsets(self, partitions: Sequence[EpochEndPartition]) -> list[EpochEndResult]:
        """Return the end offsets of leader epochs; results in the order of `partitions`."""
        return await self._epoch_ends.list_ends(partitions)

    async def delete_records(self, partitions: Sequence[DeleteRecordsPartition]) -> list[DeleteRecordsResult]:
        """Raise the log start offset of each partition to the asked one; results in the order of `partitions`."""
        return await self._deleter.delete_records(partitions)
