"""Configurations are checked before anything is sent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig, defaults
from odradek.errors import ErrorCode, KafkaError

from tests.support.counted import at_least

URL = "http://localhost:8080"

BAD: list[tuple[type[ClientConfig], dict[str, Any], str]] = [
    (ProducerConfig, {"lingerms": 5}, "did you mean linger_ms"),
    (ProducerConfig, {"linger.mss": 5}, "did you mean linger_ms"),
    (ProducerConfig, {"linger.ms": 5, "linger_ms": 5}, "linger_ms is given twice"),
    (ProducerConfig, {"linger.ms": -1}, "linger_ms must be at least 0"),
    (ConsumerConfig, {"linger_ms": 5}, "a consumer has no configuration 'linger_ms'"),
    (ProducerConfig, {"linger_ms": -1}, "linger_ms must be at least 0"),
    (ProducerConfig, {"batch_size": "1"}, "batch_size must be a whole number, not '1'"),
    (ProducerConfig, {"batch_size": True}, "batch_size must be a whole number"),
    (ProducerConfig, {"max_request_size": 6 * 1024 * 1024}, "max_request_size must be between"),
    (ProducerConfig, {"compression_type": "brotli"}, "must be one of none, gzip, snappy, lz4, zstd"),
    (ProducerConfig, {"acks": 2}, "acks must be one of all, -1, 0, 1"),
    (ProducerConfig, {"acks": "2"}, "acks must be one of all, -1, 0, 1"),
    (ProducerConfig, {"acks": True}, "acks must be one of all, -1, 0, 1"),
    (ProducerConfig, {"acks": "0"}, "enable_idempotence=False"),
    (ProducerConfig, {"acks": 0}, "enable_idempotence=False"),
    (ProducerConfig, {"max_in_flight_requests_per_connection": 6}, "at most max_in_flight"),
    (ProducerConfig, {"delivery_timeout_ms": 10}, "delivery_timeout_ms must be at least"),
    (ProducerConfig, {"partitioner": "sticky"}, "partitioner must be"),
    (ConsumerConfig, {"auto_offset_reset": "begin"}, "must be one of latest, earliest, none"),
    (ConsumerConfig, {"group_id": ""}, "group_id must be a non-empty string"),
    (ConsumerConfig, {"group_instance_id": "i"}, "group_instance_id needs a group_id"),
    (ConsumerConfig, {"fetch_max_wait_ms": 60_000}, "request_timeout_ms must be above fetch_max_wait_ms"),
    (ConsumerConfig, {"value_deserializer": "json"}, "value_deserializer must be a function"),
    (AdminConfig, {"aws_access_key_id": "AKIA"}, "or neither"),
    (ConsumerConfig, {"session_timeout_ms": 5}, "has no configuration 'session_timeout_ms': it is the server's"),
    (ConsumerConfig, {"security_protocol": "SSL"}, "are for an address kafka://host:port"),
    (ConsumerConfig, {"sasl.jaas.config": "x"}, "given as sasl_username"),
    (AdminConfig, {"bootstrap_servers": "localhost:9092"}, "looks like a Kafka broker"),
    (AdminConfig, {"bootstrap_servers": "127.0.0.1:9292"}, "http://127.0.0.1:9292 if `odradek local`"),
    (AdminConfig, {"bootstrap_servers": "ftp://host"}, "must be the URL of the coordinator function"),
    (AdminConfig, {"bootstrap_servers": ["http://a"]}, "must be the URL of the coordinator function"),
    (AdminConfig, {"bootstrap_servers": None}, "bootstrap_servers is required"),
]


@pytest.mark.parametrize(("config", "configs", "message"), BAD)
def test_what_cannot_work_is_refused_with_what_to_do(
    config: type[ClientConfig], configs: dict[str, Any], message: str
) -> None:
    with pytest.raises(KafkaError, match=re.escape(message)) as failure:
        config.of({"bootstrap_servers": URL, **configs})
    assert failure.value.code is ErrorCode.INVALID_CONFIG


def test_kafkas_dotted_names_are_taken_by_name_and_as_a_mapping() -> None:
    dotted = {"bootstrap.servers": URL, "group.id": "g", "auto.offset.reset": "earliest"}
    ours = ConsumerConfig(bootstrap_servers=URL, group_id="g", auto_offset_reset="earliest")
    assert ConsumerConfig.given(None, dotted) == ConsumerConfig.given(dotted, {}) == ours
    with pytest.raises(KafkaError, match="not both"):
        ConsumerConfig.given(dotted, {"group_id": "g"})


def test_what_is_no_configuration_is_refused_at_its_place() -> None:
    with pytest.raises(KafkaError, match=re.escape("by name, not 'orders'; pass topics to send() and subscribe()")):
        odradek.Consumer("orders", bootstrap_servers=URL)  # type: ignore[arg-type]  # as kafka-python takes it
    with pytest.raises(KafkaError, match="a share consumer takes its configuration by name"):
        odradek.ShareConsumer(["bootstrap.servers", URL])  # type: ignore[arg-type]
    with pytest.raises(KafkaError, match="group_id is required"):
        odradek.ShareConsumer({"bootstrap.servers": URL})  # as confluent-kafka takes it
    with pytest.raises(KafkaError, match="not both"):
        odradek.Admin(AdminConfig(bootstrap_servers=URL), client_id="me")


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(KafkaError, match=r"linger_ms.*; batch_size"):
        ProducerConfig.of({"bootstrap_servers": URL, "linger_ms": "x", "batch_size": 0})


def test_secrets_are_not_shown() -> None:
    config = AdminConfig(bootstrap_servers=URL, aws_access_key_id="AKIA", aws_secret_access_key="hush")
    assert "AKIA" in repr(config)
    assert "hush" not in repr(config)


def test_defaults_work_and_are_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "CLIENTS.md").read_text()
    for config in (ProducerConfig, ConsumerConfig, AdminConfig):
        made = config.of({"bootstrap_servers": URL})
        for name, default in at_least(5, defaults(config).items()):
            if name != "bootstrap_servers":
                assert getattr(made, name) == default
            assert f"`{name}`" in page, f"docs/CLIENTS.md does not mention {name}"


@pytest.mark.parametrize("acks", ["all", "-1", "1", -1, 1])
def test_acks_may_be_text(acks: str | int) -> None:
    """Kafka's properties are text, and other clients take acks="1"."""
    assert ProducerConfig(bootstrap_servers=URL, acks=acks).awaits_acks
    assert not ProducerConfig(bootstrap_servers=URL, acks="0", enable_idempotence=False).awaits_acks
