"""Calls of the admin client about the cluster as a whole: brokers, leaders, sizes, transactions; and quotas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from odradek.errors import ErrorCode, KafkaError
from odradek.model.quota import QuotaEntity
from odradek.model.topic_partition import TopicPartition


@pytest.fixture(scope="module")
def service() -> Iterator[Any]:
    with odradek.local() as embedded:
        with odradek.Admin(**embedded.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", 2), odradek.NewTopic("u", 1)])
        yield embedded


@pytest.fixture
def admin(service: Any) -> Iterator[odradek.Admin]:
    with odradek.Admin(**service.client_config) as opened:
        yield opened


def test_the_fleet_leads_every_partition(admin: odradek.Admin, service: Any) -> None:
    cluster = admin.describe_cluster()
    assert [broker.broker_id for broker in cluster.brokers] == [0]
    assert f"{cluster.brokers[0].host}:{cluster.brokers[0].port}" in service.bootstrap_servers
    everything = admin.describe_topics()
    assert list(everything) == ["t", "u"]
    assert everything["t"].leaders == (0, 0)


def test_sizes_are_those_of_stored_batches(admin: odradek.Admin, service: Any) -> None:
    assert admin.describe_log_dirs({"t": 2, "u": 1, "missing": 1})[TopicPartition("u", 0)] == 0
    with odradek.Producer(**service.client_config) as producer:
        producer.send("u", b"x" * 1000).result(30)
    sizes = admin.describe_log_dirs({"u": 1})
    assert sizes.keys() == {TopicPartition("u", 0)}
    assert 1_000 < sizes[TopicPartition("u", 0)] < 1_200


def test_a_transaction_is_seen_and_fenced(admin: odradek.Admin, service: Any) -> None:
    producer = odradek.Producer(**service.client_config, transactional_id="tx", transaction_timeout_ms=30_000)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"v", partition=1).result(30)

    [listed] = admin.list_transactions(["Ongoing"])
    described = admin.describe_transactions(["tx"])["tx"]
    assert (listed.transactional_id, listed.state) == ("tx", "Ongoing")
    assert described.partitions == (TopicPartition("t", 1),)
    assert described.timeout_ms == 30_000
    assert described.start_ms is not None

    admin.fence_producers(["tx"])

    after = admin.describe_transactions(["tx"])["tx"]
    assert (after.state, after.start_ms, after.partitions) == ("Empty", None, ())
    assert after.producer_epoch > described.producer_epoch
    with pytest.raises(KafkaError) as caught:
        producer.commit_transaction()
    assert caught.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    producer.close()
    with pytest.raises(KafkaError) as caught:
        admin.describe_transactions(["nobody"])
    assert caught.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_quotas_are_set_and_removed(admin: odradek.Admin) -> None:
    ann, app = QuotaEntity(user="ann"), QuotaEntity(user="", client_id="app")
    admin.alter_client_quotas(ann, {"producer_byte_rate": 1e6})
    admin.alter_client_quotas(app, {"consumer_byte_rate": 5.0})

    assert admin.describe_client_quotas() == {ann: {"producer_byte_rate": 1e6}, app: {"consumer_byte_rate": 5.0}}
    admin.alter_client_quotas(ann, {"producer_byte_rate": None})
    admin.alter_client_quotas(app, {"consumer_byte_rate": None})
    assert admin.describe_client_quotas() == {}
    with pytest.raises(KafkaError):
        admin.alter_client_quotas(ann, {"no_such_quota": 1.0})
    with pytest.raises(KafkaError):
        admin.alter_client_quotas(QuotaEntity(), {"producer_byte_rate": 1.0})
