"""An admin client that is called as people call it, and what its errors say."""

from __future__ import annotations

import socket
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import odradek
import pytest
from odradek import Admin, KafkaError, NewTopic
from odradek.client.transport.base import InProcessTransport
from odradek.errors import ErrorCode

from tests.support.clients.in_process import server_thread


@pytest.fixture
def admin() -> Iterator[Admin]:
    with server_thread() as (server, loop):
        transport: InProcessTransport = server.transport(loop=loop)
        with Admin(transport=transport) as admin:
            yield admin


def test_topics_are_created_by_name_too(admin: Admin) -> None:
    admin.create_topics(["a", NewTopic("b", 3)])
    admin.create_topics("single")
    assert {name: topic.partition_count for name, topic in admin.describe_topics().items()} == {
        "a": admin.describe_topics("single")["single"].partition_count,
        "b": 3,
        "single": admin.describe_topics("single")["single"].partition_count,
    }
    with pytest.raises(KafkaError, match="is NewTopic\\(name, num_partitions\\) or a name, not 3"):
        admin.create_topics([3])  # type: ignore[list-item]


def test_if_not_exists_leaves_a_topic_as_it_is(admin: Admin) -> None:
    admin.create_topics([NewTopic("a", 3)])
    admin.create_topics([NewTopic("a", 5), "new"], if_not_exists=True)
    assert admin.describe_topics("a")["a"].partition_count == 3
    assert admin.list_topics() == ["a", "new"]
    with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics(["a"])
    with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
        admin.create_topics(["a/b"], if_not_exists=True)


def test_a_name_alone_is_not_taken_for_its_letters(admin: Admin) -> None:
    admin.create_topics(["a", "b", "ab"])
    admin.delete_topics("ab")
    assert admin.list_topics() == ["a", "b"]
    assert list(admin.describe_configs("a")) == ["a"]
    calls: list[tuple[Callable[[Any], Any], str]] = [
        (admin.describe_consumer_groups, "gg"),
        (admin.delete_consumer_groups, "gg"),
        (admin.describe_transactions, "tt"),
    ]
    for call, name in calls:
        with pytest.raises(KafkaError, match=f"'{name}'"):
            call(name)


def test_a_configuration_is_described_with_the_value_that_a_reset_leads_to(admin: Admin) -> None:
    admin.create_topics([NewTopic("a", 1, configs={"cleanup.policy": "compact", "retention.ms": "1000"})])
    configs = admin.describe_configs(["a"])["a"]
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].default) == ("compact", "delete")
    assert (configs["segment.bytes"].is_default, configs["segment.bytes"].default) == (
        True,
        configs["segment.bytes"].value,
    )
    assert configs["retention.ms"].default is None, "no configuration of a broker says the same: there is no synonym"


def test_some_configurations_are_described_without_the_others(admin: Admin) -> None:
    admin.create_topics(["a", "b"])
    configs_by_topic = admin.describe_configs(["a", "b"], names=["retention.ms", "cleanup.policy"])
    assert [(topic, sorted(configs)) for topic, configs in sorted(configs_by_topic.items())] == [
        ("a", ["cleanup.policy", "retention.ms"]),
        ("b", ["cleanup.policy", "retention.ms"]),
    ]


def test_who_deletes_a_missing_topic_is_not_told_to_create_it(admin: Admin) -> None:
    with pytest.raises(KafkaError) as failure:
        admin.delete_topics(["nope"])
    assert str(failure.value) == "UNKNOWN_TOPIC_OR_PARTITION: topic 'nope' does not exist"


@pytest.mark.parametrize("scheme", ["http", "kafka"])
def test_a_refused_connection_is_one_exception(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(KafkaError) as failure:
        odradek.Producer(bootstrap_servers=f"{scheme}://127.0.0.1:{port}")
    assert failure.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    shown = "".join(traceback.format_exception(failure.value))
    assert shown.count("Traceback (most recent call last)") == 1, shown
