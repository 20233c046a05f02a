"""Another's topics, groups and transactional ids: every API, asked by somebody without rights."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from odradek.dispatcher.authorization import FREE, PER_ITEM, REQUIRED
from odradek.dispatcher.handlers import HANDLERS
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.functions.logs import JsonLines
from odradek.model.acl import AclFilter, AclPermission
from odradek.model.acl import AclOperation as Op
from odradek.model.quota import QuotaEntity
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.protocol.api import ApiKey

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.principals import add, allow, ask_as, error_codes

TOPIC, GROUP, TRANSACTION = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED, 53
CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
OWNER, MALLORY = "User:owner", "User:mallory"
PLACE = TopicPartition("secret", 0)
WRITES = ("put", "update", "delete", "transact")


class World:
    """A topic, a group and a transactional id of the owner's; rules for the owner alone."""

    def __init__(self, store: Store, engine: Engine, topic_id: UUID) -> None:
        self.store, self.engine, self.topic_id = store, engine, topic_id

    def writes(self) -> int:
        ports = (self.store.log, self.store.groups, self.store.catalog, self.store.objects, self.store.tables.across)
        return sum(port.count(name) for port in ports for name in WRITES)


@pytest.fixture
async def world() -> World:
    store = memory_store()
    engine = store.engine(acl_cache_ms=0, super_users="User:root;User:boot")
    topic = await engine.topics.create("secret", 1)
    assert not (await produce(engine, "secret", 0, batch([b"a", b"b"]))).error
    await engine.offsets.commit("g", {PLACE: OffsetAndMetadata(1)})
    await engine.transactions.init("x", 60_000)
    await add(
        engine,
        allow(OWNER, Op.ALL, topic="secret"),
        allow(OWNER, Op.ALL, group="g"),
        allow(OWNER, Op.ALL, transaction="x"),
    )
    return World(store, engine, topic.topic_id)


def requests(topic_id: UUID) -> dict[ApiKey, tuple[Mapping[str, Any], set[int]]]:
    """A request of every API about the owner's things, and the codes that refuse it (none: what is empty)."""
    txn = {"transactional_id": "x", "producer_id": 0, "producer_epoch": 0}
    records = batch([b"forged"])
    one = [{"name": "secret", "partitions": [{"partition_index": 0, "committed_offset": 0}]}]
    numbers = {"resource_type": 2, "resource_pattern_type": 3, "operation": 2, "permission_type": 3}
    anything = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    config = {"resource_type": 2, "resource_name": "secret"}
    member = {"group_id": "g", "member_id": "m", "generation_id": 1}
    scram = {"name": "mallory", "mechanism": 1, "iterations": 4096, "salt": b"s" * 16, "salted_password": b"p" * 32}
    fetched = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    return {
        ApiKey.PRODUCE: (
            {"acks": -1, "topic_data": [{"topic_id": topic_id, "partition_data": [{"index": 0, "records": records}]}]},
            {TOPIC},
        ),
        ApiKey.FETCH: (
            {"max_bytes": 1 << 20, "session_epoch": -1, "topics": [{"topic_id": topic_id, "partitions": [fetched]}]},
            {TOPIC},
        ),
        ApiKey.LIST_OFFSETS: (
            {"topics": [{"name": "secret", "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
            {TOPIC},
        ),
        ApiKey.METADATA: ({"topics": [{"name": "secret", "topic_id": None}]}, {TOPIC}),
        ApiKey.OFFSET_COMMIT: ({"group_id": "g", "topics": [{"topic_id": topic_id, **one[0]}]}, {GROUP}),
        ApiKey.OFFSET_FETCH: ({"groups": [{"group_id": "g", "topics": None}]}, {GROUP}),
        ApiKey.FIND_COORDINATOR: ({"key_type": 1, "coordinator_keys": ["x"]}, {TRANSACTION}),
        ApiKey.JOIN_GROUP: ({"group_id": "g", "session_timeout": 10_000, "protocol_type": "consumer"}, {GROUP}),
        ApiKey.HEARTBEAT: (member, {GROUP}),
        ApiKey.LEAVE_GROUP: ({"group_id": "g", "members": [{"member_id": "m"}]}, {GROUP}),
        ApiKey.SYNC_GROUP: (member, {GROUP}),
        ApiKey.DESCRIBE_GROUPS: ({"groups": ["g"]}, {GROUP}),
        ApiKey.LIST_GROUPS: ({}, set()),
        ApiKey.CREATE_TOPICS: (
            {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}], "timeout": 1},
            {TOPIC},
        ),
        ApiKey.DELETE_TOPICS: ({"topics": [{"name": None, "topic_id": topic_id}], "timeout": 1}, {TOPIC}),
        ApiKey.CREATE_PARTITIONS: ({"topics": [{"name": "secret", "count": 5}], "timeout": 1}, {TOPIC}),
        ApiKey.DELETE_RECORDS: (
            {"topics": [{"name": "secret", "partitions": [{"partition_index": 0, "offset": -1}]}], "timeout": 1},
            {TOPIC},
        ),
        ApiKey.INIT_PRODUCER_ID: ({"transactional_id": "x", "transaction_timeout": 60_000}, {TRANSACTION}),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (
            {"topics": [{"topic": "secret", "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
            {TOPIC},
        ),
        ApiKey.ADD_PARTITIONS_TO_TXN: (
            {
                "v3_and_below_transactional_id": "x",
                "v3_and_below_topics": [{"name": "secret", "partitions": [0]}],
            },
            {TRANSACTION},
        ),
        ApiKey.ADD_OFFSETS_TO_TXN: ({**txn, "group_id": "g"}, {TRANSACTION}),
        ApiKey.TXN_OFFSET_COMMIT: ({**txn, "group_id": "g", "topics": one}, {TRANSACTION}),
        ApiKey.END_TXN: ({**txn, "committed": True}, {TRANSACTION}),
        ApiKey.DESCRIBE_ACLS: (anything, {CLUSTER}),
        ApiKey.CREATE_ACLS: (
            {"creations": [{**numbers, "resource_name": "secret", "principal": MALLORY, "host": "*"}]},
            {CLUSTER},
        ),
        ApiKey.DELETE_ACLS: ({"filters": [anything]}, {CLUSTER}),
        ApiKey.DESCRIBE_CONFIGS: ({"resources": [config]}, {TOPIC}),
        ApiKey.ALTER_CONFIGS: ({"resources": [{**config, "configs": []}]}, {TOPIC}),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: ({"resources": [{**config, "configs": []}]}, {TOPIC}),
        ApiKey.DELETE_GROUPS: ({"groups_names": ["g"]}, {GROUP}),
        ApiKey.OFFSET_DELETE: (
            {"group_id": "g", "topics": [{"name": "secret", "partitions": [{"partition_index": 0}]}]},
            {GROUP},
        ),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ({"users": None}, {CLUSTER}),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ({"deletions": [], "upsertions": [scram]}, {CLUSTER}),
        ApiKey.DESCRIBE_TRANSACTIONS: ({"transactional_ids": ["x"]}, {TRANSACTION}),
        ApiKey.LIST_TRANSACTIONS: ({}, set()),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: ({"components": [], "strict": False}, {CLUSTER}),
        ApiKey.ALTER_CLIENT_QUOTAS: ({"entries": [{"entity": [], "ops": []}]}, {CLUSTER}),
        ApiKey.DESCRIBE_LOG_DIRS: ({"topics": None}, {CLUSTER}),
        ApiKey.LIST_CONFIG_RESOURCES: ({}, {CLUSTER}),
        ApiKey.DESCRIBE_CLUSTER: ({}, set()),
        ApiKey.DESCRIBE_PRODUCERS: ({"topics": [{"name": "secret", "partition_indexes": [0]}]}, {TOPIC}),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: ({"topics": [{"name": "secret"}]}, {TOPIC}),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: (
            {"group_id": "g", "member_id": "m", "rebalance_timeout": 1000, "subscribed_topic_names": ["secret"]},
            {GROUP},
        ),
        ApiKey.CONSUMER_GROUP_DESCRIBE: ({"group_ids": ["g"]}, {GROUP}),
        ApiKey.SHARE_GROUP_HEARTBEAT: (
            {"group_id": "s", "member_id": "m", "subscribed_topic_names": ["secret"]},
            {GROUP},
        ),
        ApiKey.SHARE_GROUP_DESCRIBE: ({"group_ids": ["s"]}, {GROUP}),
        ApiKey.STREAMS_GROUP_HEARTBEAT: ({"group_id": "app", "member_id": "m"}, {GROUP}),
        ApiKey.STREAMS_GROUP_DESCRIBE: ({"group_ids": ["app"]}, {GROUP}),
        ApiKey.SHARE_FETCH: (
            {"group_id": "s", "member_id": "m", "topics": [{"topic_id": topic_id, "partitions": [{}]}]},
            {GROUP},
        ),
        ApiKey.SHARE_ACKNOWLEDGE: ({"group_id": "s", "member_id": "m", "share_session_epoch": 1}, {GROUP}),
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: ({"groups": [{"group_id": "s", "topics": None}]}, {GROUP}),
        ApiKey.ALTER_SHARE_GROUP_OFFSETS: (
            {"group_id": "s", "topics": [{"topic_name": "secret", "partitions": [{"partition_index": 0}]}]},
            {GROUP},
        ),
        ApiKey.DELETE_SHARE_GROUP_OFFSETS: ({"group_id": "s", "topics": [{"topic_name": "secret"}]}, {GROUP}),
    }


GUARDED = sorted(set(HANDLERS) - FREE)


def test_every_api_has_its_rights() -> None:
    assert set(HANDLERS) == set(REQUIRED) | PER_ITEM | FREE
    assert not (set(REQUIRED) | PER_ITEM) & FREE


@pytest.mark.parametrize("api_key", GUARDED, ids=lambda key: key.name)
async def test_who_has_no_right_is_refused_and_nothing_is_written(world: World, api_key: ApiKey) -> None:
    fields, refusals = requests(world.topic_id)[api_key]
    before = world.writes()
    response = await ask_as(world.engine, MALLORY, api_key, fields)
    assert world.writes() == before
    assert set(error_codes(response)) - {0} == refusals, response
    assert b"secret" not in repr(response).encode() or api_key not in (ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS)
    assert b"forged" not in b"".join(record.value or b"" for record in await read_all(world.engine, "secret", 0))


@pytest.mark.parametrize("api_key", GUARDED, ids=lambda key: key.name)
async def test_who_has_the_rights_is_not_refused(world: World, api_key: ApiKey) -> None:
    fields, _ = requests(world.topic_id)[api_key]
    codes = set(error_codes(await ask_as(world.engine, "User:root", api_key, fields)))
    assert not codes & {int(TOPIC), int(GROUP), int(CLUSTER), TRANSACTION}


async def test_topics_that_may_not_be_described_are_not_there(world: World) -> None:
    everything = await ask_as(world.engine, MALLORY, ApiKey.METADATA, {"topics": None})
    assert everything.topics == ()
    topics_asked = [{"name": "secret", "topic_id": None}, {"name": "nowhere", "topic_id": None}]
    response = await ask_as(world.engine, MALLORY, ApiKey.METADATA, {"topics": topics_asked})
    assert [topic.error_code for topic in response.topics] == [TOPIC, TOPIC], (
        "who may not look cannot tell one from none"
    )
    assert all(topic.topic_id is None for topic in response.topics)
    by_id = await ask_as(world.engine, MALLORY, ApiKey.METADATA, {"topics": [{"topic_id": world.topic_id}]})
    assert [(t.error_code, t.name) for t in by_id.topics] == [(ErrorCode.UNKNOWN_TOPIC_ID, None)]
    [deleted] = (
        await ask_as(
            world.engine, MALLORY, ApiKey.DELETE_TOPICS, {"topics": [{"topic_id": world.topic_id}], "timeout": 1}
        )
    ).responses
    assert (deleted.name, deleted.error_code) == (None, TOPIC)


async def test_one_request_about_own_and_others_topics(world: World) -> None:
    await world.engine.topics.create("mine", 1)
    await add(world.engine, allow(MALLORY, Op.WRITE, Op.READ, topic="mi", prefix=True))
    data = [{"index": 0, "records": batch([b"x"])}]
    fields = {"acks": -1, "topic_data": [{"name": n, "partition_data": data} for n in ("secret", "mine", "secret")]}
    response = await ask_as(world.engine, MALLORY, ApiKey.PRODUCE, fields, 9)
    assert [(t.name, t.partition_responses[0].error_code) for t in response.responses] == [
        ("secret", TOPIC),
        ("mine", 0),
        ("secret", TOPIC),
    ]
    assert len(await read_all(world.engine, "secret", 0)) == 2
    assert len(await read_all(world.engine, "mine", 0)) == 1
    partition_asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    fields = {
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{"topic": name, "partitions": [partition_asked]} for name in ("secret", "mine")],
    }
    response = await ask_as(world.engine, MALLORY, ApiKey.FETCH, fields, 12)
    secret, mine = (topic.partitions[0] for topic in response.responses)
    assert (secret.error_code, secret.records) == (TOPIC, None) or not secret.records
    assert mine.records


async def test_a_transaction_needs_the_right_to_every_topic_it_takes(world: World) -> None:
    await add(world.engine, allow(MALLORY, Op.WRITE, transaction="y"), allow(MALLORY, Op.WRITE, topic="mine"))
    await world.engine.topics.create("mine", 1)
    initialized = await ask_as(
        world.engine, MALLORY, ApiKey.INIT_PRODUCER_ID, {"transactional_id": "y", "transaction_timeout": 1000}
    )
    fields = {
        "v3_and_below_transactional_id": "y",
        "v3_and_below_producer_id": initialized.producer_id,
        "v3_and_below_producer_epoch": initialized.producer_epoch,
        "v3_and_below_topics": [{"name": "mine", "partitions": [0]}, {"name": "secret", "partitions": [0]}],
    }
    response = await ask_as(world.engine, MALLORY, ApiKey.ADD_PARTITIONS_TO_TXN, fields)
    codes = [t.results_by_partition[0].partition_error_code for t in response.results_by_topic_v3_and_below]
    assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED, TOPIC]


async def test_an_idempotent_producer_needs_a_topic_to_write_to(world: World) -> None:
    ask: dict[str, Any] = {"transactional_id": None, "transaction_timeout": 0}
    assert (await ask_as(world.engine, MALLORY, ApiKey.INIT_PRODUCER_ID, ask)).error_code == CLUSTER
    await add(world.engine, allow(MALLORY, Op.WRITE, topic="mine"))
    assert (await ask_as(world.engine, MALLORY, ApiKey.INIT_PRODUCER_ID, ask)).error_code == 0


async def test_deny_beats_allow_through_the_protocol(world: World) -> None:
    await add(world.engine, allow("User:*", Op.READ, topic="secret"))
    question = {"topics": [{"name": "secret", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}
    assert set(error_codes(await ask_as(world.engine, MALLORY, ApiKey.LIST_OFFSETS, question))) == {0}
    await add(world.engine, allow(MALLORY, Op.ALL, topic="sec", prefix=True, permission=AclPermission.DENY))
    assert set(error_codes(await ask_as(world.engine, MALLORY, ApiKey.LIST_OFFSETS, question))) == {TOPIC}


async def test_a_closed_cluster_from_the_beginning_and_its_super_user() -> None:
    engine = memory_store().engine(allow_everyone_if_no_acl_found="false", super_users="User:root")
    topics = {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}], "timeout": 1}
    assert set(error_codes(await ask_as(engine, MALLORY, ApiKey.CREATE_TOPICS, topics))) == {0, TOPIC}
    assert set(error_codes(await ask_as(engine, "User:root", ApiKey.CREATE_TOPICS, topics))) == {0}


async def test_over_the_kafka_port_only_super_users_make_the_first_rules() -> None:
    engine = memory_store().engine(super_users="User:root")
    rule = {"resource_type": 2, "resource_pattern_type": 3, "operation": 2, "permission_type": 3}
    creation = {"creations": [{**rule, "resource_name": "t", "principal": "User:ANONYMOUS", "host": "*"}]}
    for principal, code in (("User:ANONYMOUS", CLUSTER), ("User:root", 0)):
        [result] = (await ask_as(engine, principal, ApiKey.CREATE_ACLS, creation, transport="tcp")).results
        assert result.error_code == code
    assert len(await engine.acls.list()) == 1


async def test_kafkas_setting_leaves_open_what_has_no_rule_but_not_the_rules_themselves() -> None:
    engine = memory_store().engine(allow_everyone_if_no_acl_found="true", acl_cache_ms=0)
    await engine.topics.create("ruled", 1)
    await engine.topics.create("open", 1)
    await add(engine, allow(OWNER, Op.WRITE, topic="ruled"))
    data = [{"index": 0, "records": batch([b"x"])}]
    fields = {"acks": -1, "topic_data": [{"name": name, "partition_data": data} for name in ("ruled", "open")]}
    response = await ask_as(engine, MALLORY, ApiKey.PRODUCE, fields, 9)
    assert [topic.partition_responses[0].error_code for topic in response.responses] == [TOPIC, 0]
    rule = {"resource_type": 2, "resource_pattern_type": 3, "operation": 2, "permission_type": 3}
    creation = {"creations": [{**rule, "resource_name": "t", "principal": MALLORY, "host": "*"}]}
    [result] = (await ask_as(engine, MALLORY, ApiKey.CREATE_ACLS, creation, transport="tcp")).results
    assert result.error_code == CLUSTER


async def test_rules_through_the_protocol(world: World) -> None:
    anything = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    about = {**anything, "resource_type_filter": 2, "resource_name_filter": "secret", "pattern_type_filter": 2}
    rules = await ask_as(world.engine, "User:root", ApiKey.DESCRIBE_ACLS, about)
    assert [(r.resource_name, [acl.principal for acl in r.acls]) for r in rules.resources] == [("secret", [OWNER])]
    deleted = await ask_as(world.engine, "User:root", ApiKey.DELETE_ACLS, {"filters": [anything]})
    assert len(deleted.filter_results[0].matching_acls) == 3
    assert not await world.engine.acls.list(AclFilter())
    unknown = {"resource_type": 9, "resource_pattern_type": 3, "operation": 2, "permission_type": 3}
    wrong = {"creations": [{**unknown, "resource_name": "t", "principal": "User:a", "host": "*"}]}
    [result] = (await ask_as(world.engine, "User:root", ApiKey.CREATE_ACLS, wrong)).results
    assert result.error_code == ErrorCode.INVALID_REQUEST


async def test_administrators_leave_a_line_each_and_no_secret(world: World, caplog: pytest.LogCaptureFixture) -> None:
    lines: list[dict[str, Any]] = []
    written = JsonLines(lambda line: lines.append(json.loads(line)))  # as a function's log and a gateway's have them
    caplog.set_level(logging.INFO, "odradek.audit")
    logging.getLogger("odradek.audit").addHandler(written)
    requests_by_api = requests(world.topic_id)
    for principal in (MALLORY, "User:root"):
        for api_key in (ApiKey.CREATE_TOPICS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.CREATE_ACLS, ApiKey.METADATA):
            await ask_as(world.engine, principal, api_key, requests_by_api[api_key][0])
    logging.getLogger("odradek.audit").removeHandler(written)
    assert {line["message"] for line in lines if line["audit"] == "CREATE_ACLS"} == {
        f"audit CREATE_ACLS by {principal}" for principal in (MALLORY, "User:root")
    }
    assert [(line["principal"], line["audit"], line["outcome"][0][1]) for line in lines] == [
        (MALLORY, "CREATE_TOPICS", "TOPIC_AUTHORIZATION_FAILED"),
        (MALLORY, "ALTER_USER_SCRAM_CREDENTIALS", "CLUSTER_AUTHORIZATION_FAILED"),
        (MALLORY, "CREATE_ACLS", "CLUSTER_AUTHORIZATION_FAILED"),
        ("User:root", "CREATE_TOPICS", "NONE"),
        ("User:root", "ALTER_USER_SCRAM_CREDENTIALS", "NONE"),
        ("User:root", "CREATE_ACLS", "NONE"),
    ]
    assert lines[0]["outcome"] == [["new", "TOPIC_AUTHORIZATION_FAILED"]]
    assert "pppp" not in caplog.text
    assert "ssss" not in caplog.text


@pytest.mark.parametrize("api", [ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS])
async def test_dead_letters_of_a_share_group_need_the_right_to_write_to_their_topic(api: ApiKey, world: World) -> None:
    """A refused request has no effect."""
    await add(world.engine, allow(MALLORY, Op.ALL, group="s"))
    name = "errors.deadletterqueue.topic.name"

    async def configure(topic: str) -> int:
        change: dict[str, object] = {"name": name, "value": topic}
        if api is ApiKey.INCREMENTAL_ALTER_CONFIGS:
            change["config_operation"] = 0
        resources = [{"resource_type": 32, "resource_name": "s", "configs": [change]}]
        response = await ask_as(world.engine, MALLORY, api, {"resources": resources})
        return int(response.responses[0].error_code)

    assert await configure("secret") == TOPIC
    assert [entry.value for entry in await world.engine.group_configs.describe("s") if entry.name == name] == [""]
    assert await configure("") == 0


SUBSCRIPTION = b"\0\1" + b"\0\0\0\1" + b"\0\6secret" + b"\xff\xff\xff\xff" + b"\0\0\0\0"
OWNED = b"\0\1" + b"\0\0\0\0" + b"\xff\xff\xff\xff" + b"\0\0\0\1" + b"\0\6secret" + b"\0\0\0\0"
ASSIGNED = b"\0\0" + b"\0\0\0\1" + b"\0\6secret" + b"\0\0\0\1" + b"\0\0\0\0" + b"\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("protocol_type", "subscription", "assignment", "code"),
    [
        ("consumer", SUBSCRIPTION, b"", TOPIC),
        ("consumer", OWNED, b"", TOPIC),
        ("consumer", b"", ASSIGNED, TOPIC),
        ("consumer", b"\0\1\0\0\0\5secret", b"", TOPIC),  # nobody can tell what it names
        ("consumer", b"", b"", 0),
        ("connect", b"secret", b"", 0),  # no topics, as far as anybody knows
    ],
)
async def test_a_group_does_not_tell_of_hidden_topics(
    world: World, protocol_type: str, subscription: bytes, assignment: bytes, code: int
) -> None:
    """Whoever may describe a group, by a rule for groups of a prefix say, learns nothing of topics that are hidden."""
    member = {
        "group_id": "classic",
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "member_id": "",
        "protocol_type": protocol_type,
        "protocols": [{"name": "range", "metadata": subscription}],
    }
    await add(world.engine, allow(OWNER, Op.ALL, group="classic"), allow(MALLORY, Op.DESCRIBE, group="classic"))
    first = await ask_as(world.engine, OWNER, ApiKey.JOIN_GROUP, member, 4)
    joined = await ask_as(world.engine, OWNER, ApiKey.JOIN_GROUP, {**member, "member_id": first.member_id or "x"}, 4)
    synced = await ask_as(
        world.engine,
        OWNER,
        ApiKey.SYNC_GROUP,
        {
            "group_id": "classic",
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "assignments": [{"member_id": joined.member_id, "assignment": assignment}],
        },
        4,
    )
    assert (joined.error_code, synced.error_code) == (0, 0)
    shown = (await ask_as(world.engine, MALLORY, ApiKey.DESCRIBE_GROUPS, {"groups": ["classic"]})).groups[0]
    assert shown.error_code == code
    assert ("secret" in str(shown)) == (protocol_type == "connect")
    owners = (await ask_as(world.engine, OWNER, ApiKey.DESCRIBE_GROUPS, {"groups": ["classic"]})).groups[0]
    assert owners.error_code == (TOPIC if b"\5secret" in subscription else 0)


async def test_who_may_not_delete_a_topic_is_told_so_whatever_the_quota(world: World) -> None:
    """THROTTLING_QUOTA_EXCEEDED would have a client try again, and is a word about a topic that it may not describe."""
    await world.engine.client_quotas.alter(QuotaEntity("mallory", None, None), {"controller_mutation_rate": 0.001})
    await add(world.engine, allow(MALLORY, Op.ALL, topic="own"))
    await world.engine.topics.create("own", 50)
    names = [{"name": name, "topic_id": None} for name in ("own", "own2", "secret")]
    await world.engine.topics.create("own2", 1)
    await add(world.engine, allow(MALLORY, Op.ALL, topic="own2"))
    response = await ask_as(world.engine, MALLORY, ApiKey.DELETE_TOPICS, {"topics": names, "timeout": 1_000})
    assert [response.error_code for response in response.responses] == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED, TOPIC]


async def test_the_configuration_of_a_group_can_be_granted(world: World) -> None:
    """Only who had every right, or was a super user, could: there was no rule to give the right by itself."""
    resource = {"resource_type": 32, "resource_name": "g"}

    async def describe() -> int:
        resources_asked = {"resources": [{**resource, "configuration_keys": None}]}
        response = await ask_as(world.engine, MALLORY, ApiKey.DESCRIBE_CONFIGS, resources_asked)
        return int(response.results[0].error_code)

    async def alter() -> int:
        config = {"name": "share.record.lock.duration.ms", "config_operation": 0, "value": "20000"}
        resources_asked = {"resources": [{**resource, "configs": [config]}]}
        response = await ask_as(world.engine, MALLORY, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources_asked)
        return int(response.responses[0].error_code)

    assert (await describe(), await alter()) == (GROUP, GROUP)
    await add(world.engine, allow(MALLORY, Op.DESCRIBE_CONFIGS, group="g"))
    assert (await describe(), await alter()) == (0, GROUP)
    await add(world.engine, allow(MALLORY, Op.ALTER_CONFIGS, group="g"))
    assert (await describe(), await alter()) == (0, 0)
