"""An engine that answers by rote: what the dispatcher asks of it, and nothing stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from odradek.engine.access.decisions import AclSet
from odradek.engine.access.quotas import Quotas
from odradek.engine.leaders.view import LeaderView
from odradek.errors import ErrorCode, KafkaError
from odradek.model.classic_group import (
    ClassicIdentity,
    ClassicJoin,
    ClassicJoinResult,
    ClassicLeave,
    ClassicLeaveResult,
    ClassicMember,
    ClassicSync,
    ClassicSyncResult,
)
from odradek.model.cluster import Broker
from odradek.model.group import (
    GroupDescription,
    GroupHeartbeat,
    GroupHeartbeatResult,
    GroupListing,
    MemberDescription,
    OffsetCommitResult,
    OffsetFetchResult,
)
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
from odradek.model.topic import ConfigEntry, Topic
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.model.user import SaslMechanism, ScramCredential, User
from odradek.settings import Settings
from odradek.testing.manual_clock import ManualClock

TOPIC_ID = UUID(int=0xA1)
TOPIC = Topic("flights", TOPIC_ID, 3, {"cleanup.policy": "compact"})


class FakeTopics:
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine

    async def get(self, name: str) -> Topic | None:
        self._engine.met("get", name)
        return TOPIC if name == TOPIC.name else None

    async def get_by_id(self, topic_id: UUID) -> Topic | None:
        self._engine.met("get_by_id", topic_id)
        return TOPIC if topic_id == TOPIC_ID else None

    async def resolve(self, name: str, topic_id: UUID | None = None) -> Topic:
        self._engine.met("resolve", name, topic_id)
        if topic_id is not None and topic_id != TOPIC_ID:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "no such id")
        if topic_id is None and name != TOPIC.name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")
        return TOPIC

    async def list(self) -> list[Topic]:
        self._engine.met("list")
        return [TOPIC]

    async def create(
        self,
        name: str,
        partition_count: int = -1,
        configs: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
    ) -> Topic:
        self._engine.met("create", name, partition_count, configs, validate_only)
        return Topic(name, TOPIC_ID, max(1, partition_count), configs or {})

    async def delete(self, name: str) -> Topic:
        self._engine.met("delete", name)
        return Topic(name, TOPIC_ID, 1)

    async def create_partitions(self, name: str, total_count: int, *, validate_only: bool = False) -> Topic:
        self._engine.met("create_partitions", name, total_count, validate_only)
        return Topic(name, TOPIC_ID, total_count)

    async def alter_configs(
        self, name: str, *, set: Mapping[str, str], delete: Sequence[str] = (), validate_only: bool = False
    ) -> Topic:
        self._engine.met("alter_configs", name, dict(set), tuple(delete), validate_only)
        return TOPIC

    def describe_configs(self, topic: Topic) -> Sequence[ConfigEntry]:
        return [
            ConfigEntry("cleanup.policy", topic.configs.get("cleanup.policy", "delete"), False, config_type=7),
            ConfigEntry("retention.ms", "604800000", True, config_type=5, documentation="how long"),
        ]


class FakeProducerIds:
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine

    async def init(self, **options: int) -> Any:
        self._engine.met("init", None, options)
        return ProducerIdAndEpoch(17, 0)


class FakeTransactions:
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine

    async def init(self, transactional_id: str, timeout_ms: int, **options: int) -> Any:
        self._engine.met("init", transactional_id, timeout_ms, options)
        return ProducerIdAndEpoch(17, 0)


@dataclass(frozen=True)
class ProducerIdAndEpoch:
    producer_id: int
    producer_epoch: int


class FakeOffsets:
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine

    async def commit(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], **member: Any
    ) -> list[OffsetCommitResult]:
        self._engine.met("commit", group_id, dict(offsets), member)
        return [OffsetCommitResult(partition) for partition in offsets]

    async def delete(self, group_id: str, partitions: Sequence[TopicPartition]) -> list[OffsetCommitResult]:
        self._engine.met("offsets.delete", group_id, tuple(partitions))
        return [OffsetCommitResult(partition) for partition in partitions]

    async def fetch(
        self, group_id: str, partitions: Sequence[TopicPartition] | None, **member: Any
    ) -> list[OffsetFetchResult]:
        self._engine.met("offsets.fetch", group_id, partitions, member)
        if partitions is None:
            return [OffsetFetchResult(TopicPartition("flights", 1), OffsetAndMetadata(42, 0, "note"))]
        return [OffsetFetchResult(partition) for partition in partitions]


class FakeClassicGroups:
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine

    async def join(self, request: ClassicJoin) -> ClassicJoinResult:
        self._engine.met("join", request)
        member = ClassicMember("m1", protocols=request.protocols)
        return ClassicJoinResult(
            member_id="m1", generation=3, protocol_type="consumer", protocol="range", leader="m1", members=(member,)
        )

    async def sync(self, request: ClassicSync) -> ClassicSyncResult:
        self._engine.met("sync", request)
        return ClassicSyncResult(protocol_type="consumer", protocol="range", assignment=b"yours")

    async def heartbeat(self, identity: ClassicIdentity) -> ErrorCode:
        self._engine.met("classic_heartbeat", identity)
        return ErrorCode.REBALANCE_IN_PROGRESS

    async def leave(self, group_id: str, leaves: Sequence[ClassicLeave]) -> ClassicLeaveResult:
        self._engine.met("leave", group_id, tuple(leaves))
        return ClassicLeaveResult(members=[(leave, ErrorCode.NONE) for leave in leaves])


class FakeUsers:
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine

    async def put(self, user: User) -> None:
        self._engine.met("users.put", user)

    async def delete(self, name: str, mechanism: SaslMechanism) -> None:
        self._engine.met("users.delete", name, mechanism)

    async def list(self) -> list[User]:
        self._engine.met("users.list")
        credential = ScramCredential(b"salt", 4096, b"stored", b"server")
        return [User("ada", {SaslMechanism.SCRAM_SHA_256: credential})]


class FakeGroups:
    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine

    async def heartbeat(self, request: GroupHeartbeat) -> GroupHeartbeatResult:
        self._engine.met("heartbeat", request)
        return GroupHeartbeatResult(member_id=request.member_id, member_epoch=2, assignment={TOPIC_ID: (0, 2)})

    async def describe(self, group_ids: Sequence[str]) -> list[GroupDescription]:
        self._engine.met("describe", tuple(group_ids))
        member = MemberDescription(
            "m1", None, None, 2, "client", "/host", ("flights",), None, {TOPIC_ID: (0, 2)}, {TOPIC_ID: (0,)}
        )
        return [
            GroupDescription(group_id, state="Stable", group_epoch=2, assignment_epoch=2, members=(member,))
            if group_id == "known"
            else GroupDescription(group_id, ErrorCode.GROUP_ID_NOT_FOUND, "no such group")
            for group_id in group_ids
        ]

    async def delete(self, group_ids: Sequence[str]) -> list[tuple[str, ErrorCode]]:
        self._engine.met("delete_groups", tuple(group_ids))
        return [(group_id, ErrorCode.NONE) for group_id in group_ids]

    async def list(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
        self._engine.met("list_groups", tuple(states), tuple(types))
        return [GroupListing("known", "Stable")]


class FakeAcls:
    """No rules: everybody may do everything."""

    async def current(self) -> AclSet:
        return AclSet()


@dataclass
class FakeEngine:
    """Notes every call; raises `failure` in each if one is given."""

    settings: Settings = field(default_factory=Settings)
    failure: Exception | None = None
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    view: LeaderView = field(default_factory=LeaderView)

    def __post_init__(self) -> None:
        self.topics = FakeTopics(self)
        self.producer_ids = FakeProducerIds(self)
        self.transactions = FakeTransactions(self)
        self.offsets = FakeOffsets(self)
        self.groups = FakeGroups(self)
        self.users = FakeUsers(self)
        self.acls = FakeAcls()
        self.clock = ManualClock()
        self.quotas = Quotas(self.clock, self.settings)
        self.classic_groups = FakeClassicGroups(self)

    def met(self, *call: Any) -> None:
        self.calls.append(call)
        if self.failure is not None:
            raise self.failure

    async def leader_view(self, topics: Sequence[Topic]) -> LeaderView:
        return self.view

    async def broker(self, broker_id: int) -> Broker | None:
        return next((broker for broker in self.view.brokers if broker.broker_id == broker_id), None)

    async def epoch_end_offsets(self, partitions: Sequence[EpochEndPartition]) -> list[EpochEndResult]:
        self.met("epoch_end_offsets", partitions)
        return [EpochEndResult(p.topic, p.partition, leader_epoch=p.leader_epoch, end_offset=40) for p in partitions]

    async def produce(
        self,
        partitions: Sequence[ProducePartition],
        *,
        transactional_id: str | None = None,
        announces: bool = True,
    ) -> list[ProduceResult]:
        self.met("produce", partitions, transactional_id)
        return [ProduceResult(p.topic, p.partition, base_offset=7, topic_id=p.topic_id) for p in partitions]

    async def fetch(self, partitions: Sequence[FetchPartition], **limits: int) -> list[FetchResult]:
        self.met("fetch", partitions, limits)
        return [
            FetchResult(p.topic, p.partition, high_watermark=9, log_start_offset=0, records=(b"abc", b"d"))
            for p in partitions
        ]

    async def list_offsets(self, partitions: Sequence[ListOffsetsPartition]) -> list[ListOffsetsResult]:
        self.met("list_offsets", partitions)
        return [ListOffsetsResult(p.topic, p.partition, offset=5, timestamp_ms=6) for p in partitions]

    async def delete_records(self, partitions: Sequence[DeleteRecordsPartition]) -> list[DeleteRecordsResult]:
        self.met("delete_records", partitions)
        return [DeleteRecordsResult(p.topic, p.partition, low_watermark=p.offset) for p in partitions]
