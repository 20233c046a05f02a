"""Answers that Apache Kafka gives and that clients rely on, as tests/peers saw them; these need no Java."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.protocol.api import ApiKey
from odradek.settings import Settings

from tests.support.dispatching import ask
from tests.support.engine import Store, memory_store

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32


@pytest.fixture
def store() -> Store:
    return memory_store()


@pytest.fixture
async def engine(store: Store) -> Engine:
    engine = store.engine(catalog_cache_ms=0, acl_cache_ms=0)
    for name, count in (("a", 3), ("b", 2)):
        await engine.topics.create(name, count)
    return engine


async def configs(
    engine: Engine, resource_type: int, name: str, keys: list[str] | None = None, **more: Any
) -> dict[str, Any]:
    resource = {"resource_type": resource_type, "resource_name": name, "configuration_keys": keys}
    response = await ask(engine, ApiKey.DESCRIBE_CONFIGS, 4, {"resources": [resource], **more})
    [result] = response.results
    return {"error": result.error_code, **{config.name: config for config in result.configs}}


# --- the cluster ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version", "code"),
    [
        ("librdkafka", "2.16.1", 0),
        ("apache-kafka-java", "4.4.0", 0),
        ("a", "1", 0),
        ("", "1", ErrorCode.INVALID_REQUEST),
        ("a", "", ErrorCode.INVALID_REQUEST),
        ("a b", "1", ErrorCode.INVALID_REQUEST),
        ("a-", "1", ErrorCode.INVALID_REQUEST),
        ("a", "1+x", ErrorCode.INVALID_REQUEST),
        ("ü", "1", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_clients_software_has_a_name_of_letters(name: str, version: str, code: int, engine: Engine) -> None:
    fields = {"client_software_name": name, "client_software_version": version}
    assert (await ask(engine, ApiKey.API_VERSIONS, 3, fields)).error_code == code
    assert (await ask(engine, ApiKey.API_VERSIONS, 2, {})).error_code == 0


async def test_what_is_named_twice_is_described_once(engine: Engine) -> None:
    topic_id = (await engine.topics.resolve("a")).topic_id
    for topic_asked in ({"name": "a"}, {"name": None, "topic_id": topic_id}, {"name": "missing"}):
        assert len((await ask(engine, ApiKey.METADATA, 12, {"topics": [topic_asked, topic_asked]})).topics) == 1
    fields = {"topics": [{"topic": "a", "partitions": [1, 1, 0]}]}
    [described] = (await ask(engine, ApiKey.DESCRIBE_LOG_DIRS, 4, fields)).results[0].topics
    assert [partition.partition_index for partition in described.partitions] == [1, 0]


async def test_a_name_that_no_topic_may_have_is_unknown_but_to_metadata(engine: Engine) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    growth = {"topics": [{"name": "a/b", "count": 2, "assignments": None}]}
    assert (await ask(engine, ApiKey.CREATE_PARTITIONS, 3, growth)).results[0].error_code == unknown
    response = await ask(engine, ApiKey.DELETE_TOPICS, 6, {"topics": [{"name": "a/b"}]})
    assert response.responses[0].error_code == unknown
    response = await ask(engine, ApiKey.METADATA, 12, {"topics": [{"name": "a/b"}]})
    assert response.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def pages(engine: Engine, names: list[str], limit: int, cursor: tuple[str, int] | None) -> Any:
    return await ask(
        engine,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        {
            "topics": [{"name": name} for name in names],
            "response_partition_limit": limit,
            "cursor": None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]},
        },
    )


async def test_a_cursor_is_at_one_of_the_topics(engine: Engine) -> None:
    for name in ("0", "aa", "z", ""):
        response = await pages(engine, ["a", "b"], 9, (name, 0))
        assert {topic.error_code for topic in response.topics} == {ErrorCode.INVALID_REQUEST}
    assert [topic.name for topic in (await pages(engine, ["a", "b"], 9, ("b", 0))).topics] == ["b"]


async def test_a_page_that_is_full_has_no_missing_topic_behind(engine: Engine) -> None:
    response = await pages(engine, ["0", "b", "c", "d"], 2, None)
    assert [topic.name for topic in response.topics] == ["0", "b"]
    assert len({topic.topic_authorized_operations for topic in response.topics}) == 1, "of a missing topic, too"
    assert (response.next_cursor.topic_name, response.next_cursor.partition_index) == ("c", 0)


# --- topics -----------------------------------------------------------------------------------------------------------


async def test_a_topic_that_exists_is_told_before_what_is_wrong_with_the_request(engine: Engine) -> None:
    topic = {"name": "a", "num_partitions": -7, "replication_factor": 1, "configs": [{"name": "x", "value": "y"}]}
    response = await ask(engine, ApiKey.CREATE_TOPICS, 7, {"topics": [topic]})
    assert response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert response.topics[0].configs == (), "Kafka's list is empty, not null"


async def test_what_would_be_created_has_an_id(engine: Engine) -> None:
    creation = {"topics": [{"name": "c", "num_partitions": 1, "replication_factor": 1}], "validate_only": True}
    assert isinstance((await ask(engine, ApiKey.CREATE_TOPICS, 7, creation)).topics[0].topic_id, UUID)
    assert await engine.topics.get("c") is None


async def test_an_empty_assignment_is_not_none(engine: Engine) -> None:
    growth = {"topics": [{"name": "a", "count": 4, "assignments": []}]}
    response = await ask(engine, ApiKey.CREATE_PARTITIONS, 3, growth)
    assert response.results[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


# --- configurations ---------------------------------------------------------------------------------------------------


async def test_an_empty_list_of_keys_means_all(engine: Engine) -> None:
    assert await configs(engine, TOPIC, "a", []) == await configs(engine, TOPIC, "a")


async def test_documentation_is_for_those_who_ask_for_it(engine: Engine) -> None:
    for resource_type, name, key in ((TOPIC, "a", "retention.ms"), (BROKER, "0", "num.partitions"), (GROUP, "g", None)):
        quiet = await configs(engine, resource_type, name)
        documented = await configs(engine, resource_type, name, include_documentation=True)
        assert all(config.documentation is None for config in list(quiet.values())[1:])
        assert all(config.documentation for config in list(documented.values())[1:])
        assert key is None or key in documented


async def test_the_default_below_an_override_is_the_brokers(engine: Engine) -> None:
    await engine.topics.alter_configs("a", set={"max.message.bytes": "5000", "retention.ms": "7"})
    configs_read = await configs(engine, TOPIC, "a", include_synonyms=True)

    def synonyms(name: str) -> list[tuple[str, str, int]]:
        return [(synonym.name, synonym.value, synonym.source) for synonym in configs_read[name].synonyms]

    assert synonyms("max.message.bytes") == [("max.message.bytes", "5000", 1), ("message.max.bytes", "1048588", 5)]
    assert synonyms("flush.messages") == [("log.flush.interval.messages", str(2**63 - 1), 5)]
    assert synonyms("retention.ms") == [("retention.ms", "7", 1)], "by default the broker's is in hours"
    assert synonyms("segment.ms") == []
    of_group = await configs(engine, GROUP, "g", include_synonyms=True)
    [synonym] = of_group["consumer.session.timeout.ms"].synonyms
    assert (synonym.name, synonym.source) == ("group.consumer.session.timeout.ms", 5)


async def test_settings_of_the_operator_are_told_from_defaults(store: Store) -> None:
    engine = store.engine(connections_max_reauth_ms=9_000)
    configs_read = await configs(engine, BROKER, "0", include_synonyms=True)
    for name, value in {
        "connections.max.reauth.ms": "9000",
        "log.flush.interval.messages": str(2**63 - 1),
        "log.retention.hours": "168",
        "connections.max.idle.ms": str(Settings().gateway_idle_timeout_ms),
        "message.max.bytes": "1048588",
    }.items():
        assert (configs_read[name].value, configs_read[name].read_only) == (value, True)
    changed, default = configs_read["connections.max.reauth.ms"], configs_read["num.partitions"]
    assert [changed.config_source, default.config_source] == [4, 5]
    assert [(synonym.value, synonym.source) for synonym in changed.synonyms] == [("9000", 4), ("0", 5)]
    assert [(synonym.value, synonym.source) for synonym in default.synonyms] == [("1", 5)]


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (BROKER, "", 0),
        (BROKER, "+0", 0),
        (BROKER, "1", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "0", 0),
        (BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_resources_by_name(resource_type: int, name: str, code: int, engine: Engine) -> None:
    assert (await configs(engine, resource_type, name))["error"] == code


async def test_each_resource_has_a_result(engine: Engine) -> None:
    change = {"name": "retention.ms", "config_operation": 0, "value": "1"}
    resource = {"resource_type": TOPIC, "resource_name": "a", "configs": [change]}
    response = await ask(engine, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource, resource]})
    assert [result.error_code for result in response.responses] == [ErrorCode.INVALID_REQUEST] * 2


# --- quotas and users -------------------------------------------------------------------------------------------------


async def test_an_entity_twice_in_a_request_is_refused(engine: Engine) -> None:
    entries = [
        {
            "entity": [{"entity_type": "user", "entity_name": "u"}],
            "ops": [{"key": key, "value": 1e6, "remove": False}],
        }
        for key in ("producer_byte_rate", "consumer_byte_rate")
    ]
    response = await ask(engine, ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": entries})
    assert [entry.error_code for entry in response.entries] == [ErrorCode.INVALID_REQUEST]
    assert await engine.client_quotas.list() == {}


@pytest.mark.parametrize(("match_type", "match"), [(0, None), (1, "u"), (2, "u")])
async def test_a_filter_has_a_name_where_it_is_exact(match_type: int, match: str | None, engine: Engine) -> None:
    component = {"entity_type": "user", "match_type": match_type, "match": match}
    response = await ask(engine, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": [component], "strict": False})
    assert response.error_code == ErrorCode.INVALID_REQUEST


async def test_the_whole_pause_of_a_mutation_quota_is_told(engine: Engine) -> None:
    """A client that is told half a minute of a longer pause comes again in vain."""
    entry = {
        "entity": [{"entity_type": "client-id", "entity_name": "tests"}],
        "ops": [{"key": "controller_mutation_rate", "value": 1.0, "remove": False}],
    }
    await ask(engine, ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": [entry]})
    topic = {"name": "many", "num_partitions": 100, "replication_factor": 1}
    response = await ask(engine, ApiKey.CREATE_TOPICS, 7, {"topics": [topic]})
    assert response.topics[0].error_code == 0
    assert 80 <= response.throttle_time.total_seconds() <= 90


def credential(name: str, **changes: Any) -> dict[str, Any]:
    row = {"name": name, "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32}
    return {**row, **changes}


async def test_credentials_that_cannot_be(engine: Engine) -> None:
    for upsertions, deletions in (
        ([credential("u", salted_password=b"")], []),
        ([credential("")], []),
        ([], [{"name": "", "mechanism": 1}]),
    ):
        alteration = {"upsertions": upsertions, "deletions": deletions}
        response = await ask(engine, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, alteration)
        assert response.results[0].error_code == ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert await engine.users.list() == []


async def test_a_user_is_described_once(engine: Engine) -> None:
    await ask(engine, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"upsertions": [credential("u")], "deletions": []})
    users_asked = {"users": [{"name": "u"}, {"name": "u"}]}
    [result] = (await ask(engine, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users_asked)).results
    assert result.error_code == ErrorCode.DUPLICATE_RESOURCE
    [everyone] = (await ask(engine, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": None})).results
    assert everyone.user == "u"
