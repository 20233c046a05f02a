"""The transaction APIs in every version: fields in, fields out, and the error codes that its clients know."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.protocol.api import ApiKey
from odradek.protocol.versions import SUPPORTED_VERSIONS

from tests.support.clients.transactional_producer import Transactor, committed, transactional_batch, values
from tests.support.dispatching import ask
from tests.support.engine import memory_store


@pytest.fixture
async def engine() -> Engine:
    engine = memory_store().engine()
    await engine.topics.create("a", 2)
    await engine.topics.create("b", 1)
    return engine


def versions(api: ApiKey) -> range:
    low, high = SUPPORTED_VERSIONS[api]
    return range(low, high + 1)


def producer_fields(producer: Transactor, **more: Any) -> dict[str, Any]:
    return {
        "transactional_id": producer.transactional_id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        **more,
    }


def partitions_fields(producer: Transactor, *numbers: int) -> dict[str, Any]:
    fields = {f"v3_and_below_{name}": value for name, value in producer_fields(producer).items()}
    return {**fields, "v3_and_below_topics": [{"name": "a", "partitions": numbers}]}


def offsets_fields(producer: Transactor) -> dict[str, Any]:
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": None}
    return producer_fields(producer, group_id="g", topics=[{"name": "b", "partitions": [partition]}])


async def produce(engine: Engine, producer: Transactor, version: int) -> Any:
    records = transactional_batch([b"x"], producer.producer_id, producer.epoch, 0)
    topic_id = (await engine.topics.resolve("a")).topic_id
    topic = {"name": "a", "topic_id": topic_id, "partition_data": [{"index": 0, "records": records}]}
    fields = {"transactional_id": "tx", "acks": -1, "topic_data": [topic]}
    response = await ask(engine, ApiKey.PRODUCE, version, fields)
    return response.responses[0].partition_responses[0]


@pytest.mark.parametrize("version", versions(ApiKey.ADD_PARTITIONS_TO_TXN))
async def test_a_transaction_of_the_first_protocol(engine: Engine, version: int) -> None:
    producer = await Transactor(engine).init()
    response = await ask(engine, ApiKey.ADD_PARTITIONS_TO_TXN, version, partitions_fields(producer, 0, 1))
    [topic] = response.results_by_topic_v3_and_below
    assert [(p.partition_index, p.partition_error_code) for p in topic.results_by_partition] == [(0, 0), (1, 0)]
    written = await produce(engine, producer, 11)
    assert (written.error_code, written.base_offset) == (0, -1)
    offsets = producer_fields(producer, group_id="g")
    assert (await ask(engine, ApiKey.ADD_OFFSETS_TO_TXN, version, offsets)).error_code == 0
    response = await ask(engine, ApiKey.TXN_OFFSET_COMMIT, version, offsets_fields(producer))
    assert response.topics[0].partitions[0].error_code == 0
    end = producer_fields(producer, committed=True)
    for _ in range(2):
        assert (await ask(engine, ApiKey.END_TXN, version, end)).error_code == 0
    assert await values(engine, "a") == [b"x"]
    assert await committed(engine, "g", "b") == 5


@pytest.mark.parametrize("version", [12, 13])
async def test_a_transaction_of_the_second_protocol(engine: Engine, version: int) -> None:
    producer = await Transactor(engine).init()
    assert (await produce(engine, producer, version)).error_code == 0
    response = await ask(engine, ApiKey.TXN_OFFSET_COMMIT, 5, offsets_fields(producer))
    assert response.topics[0].partitions[0].error_code == 0
    response = await ask(engine, ApiKey.END_TXN, 5, producer_fields(producer, committed=True))
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, producer.producer_id, 1)
    assert await values(engine, "a") == [b"x"]


async def test_versions_that_do_not_announce_need_an_announcement(engine: Engine) -> None:
    producer = await Transactor(engine).init()
    old, new = ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE  # old clients do not know the new code
    assert [(await produce(engine, producer, version)).error_code for version in (10, 11)] == [old, new]
    fields = offsets_fields(producer)
    answers = [await ask(engine, ApiKey.TXN_OFFSET_COMMIT, version, fields) for version in (3, 4)]
    assert [response.topics[0].partitions[0].error_code for response in answers] == [old, new]


async def test_each_version_says_fenced_as_its_clients_know_it(engine: Engine) -> None:
    zombie = await Transactor(engine).init()
    await Transactor(engine).init()
    old, new = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED
    for version in versions(ApiKey.ADD_PARTITIONS_TO_TXN):
        response = await ask(engine, ApiKey.ADD_PARTITIONS_TO_TXN, version, partitions_fields(zombie, 0))
        [result] = response.results_by_topic_v3_and_below[0].results_by_partition
        assert result.partition_error_code == (new if version >= 2 else old)
    for version in versions(ApiKey.ADD_OFFSETS_TO_TXN):
        response = await ask(engine, ApiKey.ADD_OFFSETS_TO_TXN, version, producer_fields(zombie, group_id="g"))
        assert response.error_code == (new if version >= 2 else old)
    for version in versions(ApiKey.END_TXN):
        response = await ask(engine, ApiKey.END_TXN, version, producer_fields(zombie, committed=True))
        assert response.error_code == (new if version >= 2 else old)
    for version in versions(ApiKey.TXN_OFFSET_COMMIT):
        response = await ask(engine, ApiKey.TXN_OFFSET_COMMIT, version, offsets_fields(zombie))
        assert response.topics[0].partitions[0].error_code == old
    for version in (3, 12, 13):
        assert (await produce(engine, zombie, version)).error_code == old
    for version in (3, 4, 5):
        fields = producer_fields(zombie, transaction_timeout=1000)
        response = await ask(engine, ApiKey.INIT_PRODUCER_ID, version, fields)
        assert response.error_code == (new if version >= 4 else old)


@pytest.mark.parametrize("version", versions(ApiKey.END_TXN))
async def test_a_commit_that_cannot_be_is_something_to_abort_in_every_version(engine: Engine, version: int) -> None:
    producer = await Transactor(engine, bumps=version >= 5).init()
    await producer.send("b", 0, b"x")
    await engine.topics.delete("b")
    response = await ask(engine, ApiKey.END_TXN, version, producer_fields(producer, committed=True))
    abortable = ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert response.error_code == abortable
    response = await ask(engine, ApiKey.END_TXN, version, producer_fields(producer, committed=False))
    assert response.error_code == 0


async def test_transactions_are_listed_and_described(engine: Engine) -> None:
    open_ = await Transactor(engine, "open").init()
    await open_.send("a", 1, b"x")
    await open_.send("b", 0, b"x")
    done = await Transactor(engine, "done").init()
    await done.send("a", 0, b"x")
    await done.commit()
    for version in versions(ApiKey.LIST_TRANSACTIONS):
        response = await ask(
            engine, ApiKey.LIST_TRANSACTIONS, version, {"state_filters": ["Ongoing", "Odd"], "duration_filter": -1}
        )
        assert [state.transactional_id for state in response.transaction_states] == ["open"]
        assert response.unknown_state_filters == ("Odd",)
    response = await ask(
        engine, ApiKey.LIST_TRANSACTIONS, 1, {"producer_id_filters": [done.producer_id], "duration_filter": -1}
    )
    assert [(state.transactional_id, state.transaction_state) for state in response.transaction_states] == [
        ("done", "CompleteCommit")
    ]
    response = await ask(engine, ApiKey.LIST_TRANSACTIONS, 1, {"duration_filter": 60_000})
    assert response.transaction_states == ()
    ids = {"transactional_ids": ["open", "done", "none"]}
    states = (await ask(engine, ApiKey.DESCRIBE_TRANSACTIONS, 0, ids)).transaction_states
    assert [(state.error_code, state.transaction_state) for state in states] == [
        (0, "Ongoing"),
        (0, "CompleteCommit"),
        (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ""),
    ]
    assert [(topic.topic, topic.partitions) for topic in states[0].topics] == [("a", (1,)), ("b", (0,))]


@pytest.mark.parametrize("version", [3, 4])
async def test_the_feature_level_says_that_the_second_protocol_is_served(engine: Engine, version: int) -> None:
    software = {"client_software_name": "tests", "client_software_version": "1.0"}
    response = await ask(engine, ApiKey.API_VERSIONS, version, software)
    finalized = {feature.name: feature.max_version_level for feature in response.finalized_features}
    assert finalized == {"group.version": 1, "share.version": 1, "streams.version": 1, "transaction.version": 2}
    assert {feature.name for feature in response.supported_features} == (set(finalized) if version >= 4 else set())
