"""Every API over a store that refuses writes for good, or does not answer: a Kafka error that says so.

The store refuses from the first write on, from the second, and so on. Whatever it refuses, the answer is a code that
clients know how to take, never UNKNOWN_SERVER_ERROR; what is in the log is acknowledged; and once the store takes
writes again the same request succeeds. The same holds for names that are longer than any key may be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import pytest
from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.dispatcher.handlers import HANDLERS
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, ItemTooLarge, OutcomeUnknown, StoreRejected, StoreUnavailable
from odradek.model.acl import AclOperation as Op
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.protocol.api import ApiKey
from odradek.settings import Settings
from odradek.testing import ManualClock, SeededRng

from tests.support.clients.share_member import ShareMember
from tests.support.clients.transactional_producer import Transactor, transactional_batch
from tests.support.engine import batch, read_all
from tests.support.principals import add, allow, ask_as, error_codes
from tests.support.stores.limited_store import LimitedTables, Limits

ROOT = "User:root"
ERRORS = {
    "too large": lambda: ItemTooLarge(500_000),
    "rejected": lambda: StoreRejected("the test's store takes no such write"),
}
WRITES_MAX = 12  # of the largest request here
SCRAM = {"mechanism": 1, "iterations": 4096, "salt": b"s" * 16, "salted_password": b"p" * 32}


class World:
    """A topic, groups of each kind with a member, an open transaction, a rule and a user, all in good order."""

    def __init__(self) -> None:
        clock = ManualClock(auto_advance=True)
        self.limits = Limits()
        self.store = MemoryStore()
        self.engine = Engine(
            tables=LimitedTables(self.store, self.limits),  # type: ignore[arg-type]
            objects=MemoryObjectStore(clock),
            clock=clock,
            rng=SeededRng(1),
            settings=Settings(
                super_users=ROOT,
                acl_cache_ms=0,
                catalog_cache_ms=0,
                auto_create_topics=True,
                item_bytes_max=0,
                group_initial_rebalance_delay_ms=0,
                group_assignment_interval_ms=0,
            ),
        )
        self.topic_id = UUID(int=0)
        self.classic_member = ""
        self.transactor = Transactor(self.engine, "x")
        self.share = ShareMember(self.engine, "m", "t", group_id="s")

    async def ask(self, api_key: ApiKey, fields: Mapping[str, Any], version: int | None = None) -> Any:
        return await ask_as(self.engine, ROOT, api_key, fields, version)

    async def settle(self) -> World:
        engine = self.engine
        self.topic_id = (await engine.topics.create("t", 2)).topic_id
        await self.ask(*produce(self, 0))
        await engine.group_configs.alter("s", set={"share.auto.offset.reset": "earliest"})
        await self.ask(*consumer_heartbeat(self))
        await engine.offsets.commit("simple", {TopicPartition("t", 0): OffsetAndMetadata(1)})
        joined = await self.ask(*classic_join(self))
        self.classic_member = joined.member_id
        joined = await self.ask(*classic_join(self))
        assert (joined.error_code, joined.generation_id) == (0, 1)
        assert (await self.ask(*classic_sync(self))).error_code == 0
        await self.share.beat()
        assert (await self.ask(*share_fetch(self))).error_code == 0
        await self.transactor.init()
        await self.transactor.send("t", 0, b"in a transaction")
        await add(engine, allow("User:somebody", Op.READ, topic="t"))
        await self.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, {"deletions": [], "upsertions": [{"name": "u", **SCRAM}]})
        left = ShareMember(engine, "m", "t", group_id="empty")
        await left.beat()
        await left.fetch()
        await left.leave()
        await self.ask(*streams_join("app"))
        return self


def streams_join(group_id: str) -> tuple[ApiKey, dict[str, Any]]:
    topology = {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": ["t"]}]}
    fields = {"group_id": group_id, "member_id": "n", "rebalance_timeout": 60_000, "topology": topology}
    return ApiKey.STREAMS_GROUP_HEARTBEAT, fields


UNSETTLED = World()

Request = tuple[Any, ...]
"""An API key, fields, and a version where it is not the newest."""


def produce(world: World, sequence: int = 1) -> Request:
    data = {"index": 0, "records": batch([b"x"], producer=(7, 0, sequence))}
    return ApiKey.PRODUCE, {"acks": -1, "topic_data": [{"topic_id": world.topic_id, "partition_data": [data]}]}


def produce_in_transaction(world: World) -> Request:
    records = transactional_batch([b"more"], world.transactor.producer_id, world.transactor.epoch, 0)
    data = {"topic_id": world.topic_id, "partition_data": [{"index": 1, "records": records}]}
    return ApiKey.PRODUCE, {"acks": -1, "transactional_id": "x", "topic_data": [data]}


def consumer_heartbeat(world: World, **fields: Any) -> Request:
    joining = {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return ApiKey.CONSUMER_GROUP_HEARTBEAT, {"group_id": "g", "member_id": "m", "member_epoch": 0, **joining, **fields}


def classic_join(world: World, member_id: str | None = None) -> Request:
    protocols = [{"name": "range", "metadata": b"\0\0\0\0\0\1\0\1t\0\0\0\0"}]
    return ApiKey.JOIN_GROUP, {
        "group_id": "c",
        "member_id": world.classic_member if member_id is None else member_id,
        "session_timeout": 10_000,
        "rebalance_timeout": 1_000,
        "protocol_type": "consumer",
        "protocols": protocols,
    }


def classic_sync(world: World) -> Request:
    assignments = [{"member_id": world.classic_member, "assignment": b"all"}]
    return ApiKey.SYNC_GROUP, {**_classic(world), "protocol_type": "consumer", "assignments": assignments}


def _classic(world: World) -> dict[str, Any]:
    return {"group_id": "c", "member_id": world.classic_member, "generation_id": 1}


def offset_commit(world: World, **fields: Any) -> Request:
    partitions = [{"partition_index": number, "committed_offset": 1} for number in (0, 1)]
    topics = [{"topic_id": world.topic_id, "partitions": partitions}]
    return ApiKey.OFFSET_COMMIT, {"generation_id_or_member_epoch": -1, "topics": topics, **fields}


def share_fetch(world: World) -> Request:
    return ApiKey.SHARE_FETCH, {
        "group_id": "s",
        "member_id": "m",
        "share_session_epoch": 0,
        "max_records": 10,
        "max_bytes": 1 << 20,
        "topics": [{"topic_id": world.topic_id, "partitions": [{"partition_index": 0}, {"partition_index": 1}]}],
    }


def share_acknowledge(world: World, acknowledge_type: int = 1) -> Request:
    acknowledged = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [acknowledge_type]}
    partition = {"partition_index": 0, "acknowledgement_batches": [acknowledged]}
    return ApiKey.SHARE_ACKNOWLEDGE, {
        "group_id": "s",
        "member_id": "m",
        "share_session_epoch": 1,
        "topics": [{"topic_id": world.topic_id, "partitions": [partition]}],
    }


def _txn(world: World) -> dict[str, Any]:
    return {
        "transactional_id": "x",
        "producer_id": world.transactor.producer_id,
        "producer_epoch": world.transactor.epoch,
    }


def add_partitions(world: World) -> Request:
    named = {f"v3_and_below_{name}": value for name, value in _txn(world).items()}
    return ApiKey.ADD_PARTITIONS_TO_TXN, {**named, "v3_and_below_topics": [{"name": "t", "partitions": [1]}]}


def txn_offset_commit(world: World) -> Request:
    partitions = [{"partition_index": number, "committed_offset": 1} for number in (0, 1)]
    topics = [{"name": "t", "partitions": partitions}]
    return ApiKey.TXN_OFFSET_COMMIT, {**_txn(world), "group_id": "simple", "generation_id": -1, "topics": topics}


def create_topics(world: World) -> Request:
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("new", "newer")]
    return ApiKey.CREATE_TOPICS, {"topics": topics, "timeout": 1_000}


def alter_configs(resource_type: int, name: str, config: str, value: str) -> Callable[[World], Request]:
    configs = [{"name": config, "value": value, "config_operation": 0}]
    resources = [{"resource_type": resource_type, "resource_name": name, "configs": configs}]
    return lambda world: (ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": resources})


def replace_configs(world: World) -> Request:
    configs = [{"name": "retention.ms", "value": "5"}]
    return ApiKey.ALTER_CONFIGS, {"resources": [{"resource_type": 2, "resource_name": "t", "configs": configs}]}


def create_acls(world: World) -> Request:
    numbers = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
    return ApiKey.CREATE_ACLS, {
        "creations": [{**numbers, "resource_name": name, "principal": "User:other", "host": "*"} for name in ("t", "u")]
    }


def alter_users(world: World) -> Request:
    deletions = [{"name": "u", "mechanism": 1}]
    upsertions = [{"name": "v", **SCRAM}]
    return ApiKey.ALTER_USER_SCRAM_CREDENTIALS, {"deletions": deletions, "upsertions": upsertions}


EVERY_ACL = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
ONE_PARTITION = [{"name": "t", "partitions": [{"partition_index": 0, "offset": -1}]}]

REQUESTS: dict[str, Callable[[World], Request]] = {
    "produce": produce,
    "produce in a transaction": produce_in_transaction,
    "create a topic on demand": lambda world: (
        ApiKey.METADATA,
        {"topics": [{"name": "made"}], "allow_auto_topic_creation": True},
    ),
    "commit of a simple consumer": lambda world: offset_commit(world, group_id="simple"),
    "commit that makes the group": lambda world: offset_commit(world, group_id="never seen"),
    "commit of a classic member": lambda world: offset_commit(
        world, group_id="c", member_id=world.classic_member, generation_id_or_member_epoch=1
    ),
    "commit of a member": lambda world: offset_commit(
        world, group_id="g", member_id="m", generation_id_or_member_epoch=1
    ),
    "classic join": lambda world: (*classic_join(world, ""), 3),
    "classic rejoin": lambda world: (ApiKey.JOIN_GROUP, {**classic_join(world)[1], "rebalance_timeout": 2_000}),
    "classic heartbeat": lambda world: (ApiKey.HEARTBEAT, _classic(world)),
    "classic leave": lambda world: (
        ApiKey.LEAVE_GROUP,
        {"group_id": "c", "members": [{"member_id": world.classic_member}]},
    ),
    "create topics": create_topics,
    "delete a topic": lambda world: (
        ApiKey.DELETE_TOPICS,
        {"topics": [{"topic_id": world.topic_id}], "timeout": 1_000},
    ),
    "create partitions": lambda world: (
        ApiKey.CREATE_PARTITIONS,
        {"topics": [{"name": "t", "count": 4}], "timeout": 1_000},
    ),
    "delete records": lambda world: (ApiKey.DELETE_RECORDS, {"topics": ONE_PARTITION, "timeout": 1_000}),
    "producer id": lambda world: (ApiKey.INIT_PRODUCER_ID, {"transaction_timeout": 0, "producer_id": -1}),
    "transactional id": lambda world: (
        ApiKey.INIT_PRODUCER_ID,
        {"transactional_id": "y", "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1},
    ),
    "transactional id again": lambda world: (
        ApiKey.INIT_PRODUCER_ID,
        {"transactional_id": "x", "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1},
    ),
    "partitions of a transaction": add_partitions,
    "offsets of a transaction": lambda world: (ApiKey.ADD_OFFSETS_TO_TXN, {**_txn(world), "group_id": "simple"}),
    "commit in a transaction": txn_offset_commit,
    "end of a transaction": lambda world: (ApiKey.END_TXN, {**_txn(world), "committed": True}),
    "abort": lambda world: (ApiKey.END_TXN, {**_txn(world), "committed": False}),
    "abort of an old client": lambda world: (ApiKey.END_TXN, {**_txn(world), "committed": False}, 3),
    "create rules": create_acls,
    "delete rules": lambda world: (ApiKey.DELETE_ACLS, {"filters": [EVERY_ACL]}),
    "configure a topic": alter_configs(2, "t", "retention.ms", "5"),
    "configure a topic whole": replace_configs,
    "configure a group": alter_configs(32, "s", "share.delivery.count.limit", "2"),
    "delete groups": lambda world: (ApiKey.DELETE_GROUPS, {"groups_names": ["simple", "empty"]}),
    "delete offsets": lambda world: (ApiKey.OFFSET_DELETE, {"group_id": "simple", "topics": ONE_PARTITION}),
    "users": alter_users,
    "quotas": lambda world: (
        ApiKey.ALTER_CLIENT_QUOTAS,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "ada"}],
                    "ops": [{"key": "producer_byte_rate", "value": 5.0, "remove": False}],
                }
            ]
        },
    ),
    "join": lambda world: consumer_heartbeat(world, member_id="n"),
    "heartbeat": lambda world: consumer_heartbeat(world, member_epoch=1, rebalance_timeout=-1),
    "leave": lambda world: consumer_heartbeat(world, member_epoch=-1),
    "streams join": lambda world: streams_join("new"),
    "share join": lambda world: (
        ApiKey.SHARE_GROUP_HEARTBEAT,
        {"group_id": "s", "member_id": "n", "subscribed_topic_names": ["t"]},
    ),
    "share leave": lambda world: (
        ApiKey.SHARE_GROUP_HEARTBEAT,
        {"group_id": "s", "member_id": "m", "member_epoch": -1},
    ),
    "share fetch": share_fetch,
    "share acknowledge": share_acknowledge,
    "share release": lambda world: share_acknowledge(world, 2),
    "share close": lambda world: (
        ApiKey.SHARE_FETCH,
        {"group_id": "s", "member_id": "m", "share_session_epoch": -1, "max_bytes": 1, "topics": []},
    ),
    "move a share group": lambda world: (
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        {"group_id": "empty", "topics": [{"topic_name": "t", "partitions": [{"partition_index": 0}]}]},
    ),
    "forget a share group": lambda world: (
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        {"group_id": "empty", "topics": [{"topic_name": "t"}]},
    ),
}

# What is written is liveness alone, or what maintenance does later all the same: no answer hangs on it.
BEST_EFFORT = {"classic heartbeat", "share close"}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("name", REQUESTS)
async def test_a_write_that_is_refused_for_good(
    name: str, error: Callable[[], Exception], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    for allowed in range(WRITES_MAX):
        world = await World().settle()
        request = REQUESTS[name](world)
        world.limits.begin(error, allowed)  # type: ignore[arg-type]
        response = await world.ask(*request)
        codes = set(error_codes(response))
        refused = world.limits.refused
        world.limits.end()
        assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes, (name, allowed, response)
        assert not [record for record in caplog.records if record.exc_info], "no stack trace of a limit of the store"
        if name == "produce":
            is_applied = len(await read_all(world.engine, "t", 0)) == 2
            assert is_applied == (codes == {0}), "what is in the log is acknowledged, and nothing else"
        if not refused:
            assert allowed, "a request that writes nothing shows nothing"
            return
        if not allowed and name not in BEST_EFFORT:  # nothing was written
            assert codes - {0}, "the answer does not say so"
            again = await world.ask(*request)
            assert set(error_codes(again)) == {0}, "the same request, once the store takes it"
    pytest.fail("more writes than this test tries")


# --- a store that does not answer -----------------------------------------------------------------------------------

READS: dict[str, Callable[[World], Request]] = {
    "fetch": lambda world: (ApiKey.FETCH, {"max_bytes": 1 << 20, "session_epoch": -1, "topics": [_fetched(world)]}),
    "list offsets": lambda world: (
        ApiKey.LIST_OFFSETS,
        {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
    ),
    "epochs": lambda world: (
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        {"topics": [{"topic": "t", "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
    ),
    "metadata": lambda world: (ApiKey.METADATA, {"topics": [{"name": "t"}]}),
    "offset fetch": lambda world: (ApiKey.OFFSET_FETCH, {"groups": [{"group_id": "simple", "topics": None}]}),
    "describe groups": lambda world: (ApiKey.DESCRIBE_GROUPS, {"groups": ["c"]}),
    "list groups": lambda world: (ApiKey.LIST_GROUPS, {}),
    "describe consumer groups": lambda world: (ApiKey.CONSUMER_GROUP_DESCRIBE, {"group_ids": ["g"]}),
    "describe streams groups": lambda world: (ApiKey.STREAMS_GROUP_DESCRIBE, {"group_ids": ["app"]}),
    "describe share groups": lambda world: (ApiKey.SHARE_GROUP_DESCRIBE, {"group_ids": ["s"]}),
    "describe share offsets": lambda world: (
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        {"groups": [{"group_id": "s", "topics": None}]},
    ),
    "describe configs": lambda world: (
        ApiKey.DESCRIBE_CONFIGS,
        {"resources": [{"resource_type": 2, "resource_name": "t"}, {"resource_type": 32, "resource_name": "s"}]},
    ),
    "describe rules": lambda world: (ApiKey.DESCRIBE_ACLS, EVERY_ACL),
    "describe users": lambda world: (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None}),
    "describe transactions": lambda world: (ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": ["x"]}),
    "list transactions": lambda world: (ApiKey.LIST_TRANSACTIONS, {}),
    "describe quotas": lambda world: (ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": [], "strict": False}),
    "describe partitions": lambda world: (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        {"topics": [{"name": "t"}], "response_partition_limit": 9},
    ),
    "describe producers": lambda world: (
        ApiKey.DESCRIBE_PRODUCERS,
        {"topics": [{"name": "t", "partition_indexes": [0]}]},
    ),
    "sizes": lambda world: (ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}),
    "list resources": lambda world: (ApiKey.LIST_CONFIG_RESOURCES, {"resource_types": []}, 1),
    "find a coordinator": lambda world: (ApiKey.FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": ["g"]}),
}
CATALOG = (
    "create topics",
    "delete a topic",
    "create partitions",
    "configure a topic",
    "configure a topic whole",
    "configure a group",
    "create rules",
    "users",
)


def _fetched(world: World) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    return {"topic_id": world.topic_id, "partitions": [partition]}


def test_every_api_is_among_the_requests() -> None:
    """But those that have no part in the store."""
    apis_asked = {request(UNSETTLED)[0] for request in (REQUESTS | READS).values()}
    assert set(HANDLERS) - apis_asked == {
        ApiKey.SYNC_GROUP,  # `settle` sends it; once synced it writes nothing
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_CLUSTER,
    }


@pytest.mark.parametrize("name", REQUESTS | READS)
async def test_a_store_that_does_not_answer(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    for refuses_reads in (False, True):
        for error in (StoreUnavailable, OutcomeUnknown):
            world = await World().settle()
            request = (REQUESTS | READS)[name](world)
            world.limits.begin(lambda error=error: error("the test's"), refuses_reads=refuses_reads)  # type: ignore[misc]
            response = await world.ask(*request)
            world.limits.end()
            codes = set(error_codes(response))
            assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes, response
            assert all(ErrorCode(code).is_retryable for code in codes - {0}), response
            if name in CATALOG or request[0] is ApiKey.METADATA:
                assert ErrorCode.COORDINATOR_NOT_AVAILABLE not in codes, "nobody's clients expect it there"
            assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("name", CATALOG)
async def test_a_throttled_call_of_the_catalog_is_made_again(name: str) -> None:
    """Each call in turn, reads and writes: the request succeeds all the same."""
    world = await World().settle()
    world.limits.begin(None)
    await world.ask(*REQUESTS[name](world))
    for nth in range(world.limits.calls):
        world = await World().settle()
        request = REQUESTS[name](world)
        world.limits.begin(lambda: StoreUnavailable("throttled"), refuses_reads=True, only=nth)
        response = await world.ask(*request)
        world.limits.end()
        assert set(error_codes(response)) == {0}, (nth, response)


# --- names that are longer than keys --------------------------------------------------------------------------------


def lengthened(value: Any, name: str = "") -> Any:
    """The request with every text that a client may choose at 3,000 bytes."""
    if isinstance(value, dict):
        return {field: lengthened(member, field) for field, member in value.items()}
    if isinstance(value, list):
        return [lengthened(element, name) for element in value]
    return "é" * 1_500 if isinstance(value, str) else value


@pytest.mark.parametrize("name", REQUESTS | READS)
async def test_names_that_are_longer_than_keys(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    world = await World().settle()
    api_key, fields, *version = (REQUESTS | READS)[name](world)
    response = await world.ask(api_key, lengthened(fields), *version)
    assert ErrorCode.UNKNOWN_SERVER_ERROR not in error_codes(response), response
    assert not caplog.records
