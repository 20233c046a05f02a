"""The log of a client tells an operator why something went wrong: ten incidents, and the quiet case."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek import KafkaError, NewTopic, TopicPartition
from odradek.local import Listener, ThreadedService
from odradek.model.acl import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType
from odradek.model.quota import QuotaEntity

from tests.support.kafka import port

T0 = TopicPartition("t", 0)
LIMIT_S = 40.0


@pytest.fixture(scope="module")
def service() -> Iterator[ThreadedService]:
    clear = Listener(port=0, sasl=True, plain_without_tls=True)
    with port.kafka_service(clear, acl_cache_ms=0) as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([NewTopic("t", 2), NewTopic("secret", 1)])
            admin.create_user("bob", "bobs")
        with odradek.Producer(**service.client_config) as producer:
            for number in range(10):
                producer.send("t", b"%d" % number, partition=0)
        yield service


class Lines:
    """The lines that the clients have logged."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, "odradek.client")
        self._caplog = caplog

    def of(self, level: int) -> list[str]:
        return [
            f"{line.name.removeprefix('odradek.client.')}: {line.getMessage()}"
            for line in self._caplog.records
            if line.name.startswith("odradek.client") and line.levelno == level
        ]

    def one(self, level: int, *words: str) -> str:
        """The only line of that level with these words."""
        (line,) = (line for line in self.of(level) if all(word in line for word in words))
        return line

    def clear(self) -> None:
        self._caplog.clear()


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    return Lines(caplog)


def consumer(service: ThreadedService, group_id: str, **configs: Any) -> odradek.Consumer:
    created = odradek.Consumer(
        **{"auto_offset_reset": "earliest", "retry_backoff_max_ms": 100, **configs},
        **service.client_config,
        group_id=group_id,
    )
    created.subscribe(["t"])
    return created


def poll_until(done: Any, *consumers: odradek.Consumer) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < until_s
        for consumer in consumers:
            consumer.poll(50)


# --- the quiet case ---------------------------------------------------------------------------------------------------


def test_a_quiet_client_logs_the_steps_of_its_life_and_nothing_per_record_or_poll(
    service: ThreadedService, lines: Lines
) -> None:
    with odradek.Producer(**service.client_config, client_id="p") as producer:
        for _ in range(50):
            producer.send("t", b"x", partition=1)
            producer.flush()
    with consumer(service, "quiet") as member:
        poll_until(member.assignment, member)
        poll_until(lambda: member.position(T0) >= 10, member)
        for _ in range(20):
            member.poll(5)
        member.commit()
    assert lines.of(logging.WARNING) + lines.of(logging.ERROR) == []
    steps = [line.partition("] ")[2] for line in lines.of(logging.INFO)]
    assert [step for step in steps if "is read from" not in step and "applies" not in step] == [
        "joined the group at epoch 1",
        "partitions assigned: t [0, 1]",
        "left the group",
    ]
    assert len(lines.of(logging.DEBUG)) < 10
    joined = lines.one(logging.INFO, "joined")
    assert joined.startswith("consumer: [consumer group='quiet' member='")


def test_nothing_is_printed_without_a_handler() -> None:
    import odradek.client.log  # noqa: F401

    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("odradek.client").handlers)


# --- ten incidents ----------------------------------------------------------------------------------------------------


def test_1_the_service_is_away_and_back(tmp_path: Path, lines: Lines) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = free.getsockname()[1]
    with odradek.local(tmp_path, port=number) as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([NewTopic("t", 1)])
        member = consumer(service, "g")
        poll_until(member.assignment, member)
        assert member.position(T0) == 0
    poll_until(lambda: any("] Fetch fails" in line for line in lines.of(logging.WARNING)), member)
    line = lines.one(logging.WARNING, "] Fetch fails", "group='g'")
    assert "BROKER_NOT_AVAILABLE: cannot connect to" in line or "NETWORK_EXCEPTION: the connection to" in line
    assert f"http://127.0.0.1:{number}/" in line
    for _ in range(20):
        member.poll(50)
    assert len([line for line in lines.of(logging.WARNING) if "] Fetch" in line]) == 1  # not one for each attempt
    with odradek.local(tmp_path, port=number):
        poll_until(lambda: any("] Fetch succeeds again after" in line for line in lines.of(logging.INFO)), member)
        member.close()


def test_2_a_producer_is_fenced(service: ThreadedService, lines: Lines) -> None:
    with odradek.Producer(**service.client_config, transactional_id="tx") as old:
        old.init_transactions()
        old.begin_transaction()
        old.send("t", b"x").result()
        with odradek.Producer(**service.client_config, transactional_id="tx") as new:
            new.init_transactions()
        with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
            old.commit_transaction()
        with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
            old.abort_transaction()
    line = lines.one(logging.ERROR, "is unusable", "transactional_id='tx'")
    assert "another producer has taken over the transactional id" in line


def test_3_a_member_polls_too_rarely(service: ThreadedService, lines: Lines) -> None:
    with consumer(service, "slow", max_poll_interval_ms=300) as member:
        poll_until(member.assignment, member)
        time.sleep(1)
        line = lines.one(logging.WARNING, "leaves the group", "group='slow'")
        assert "has not polled for max_poll_interval_ms=300" in line
        assert "max_poll_records" in line
        member.poll(50)
        assert lines.one(logging.WARNING, "partitions lost: t [0, 1]")


def test_4_a_rebalance(service: ThreadedService, lines: Lines) -> None:
    with consumer(service, "two") as first:
        poll_until(lambda: len(first.assignment()) == 2, first)
        with consumer(service, "two") as second:
            poll_until(lambda: len(first.assignment()) == len(second.assignment()) == 1, first, second)
    assert len([line for line in lines.of(logging.INFO) if "partitions revoked: t [" in line]) == 1
    assert len([line for line in lines.of(logging.INFO) if "partitions assigned: t [" in line]) >= 2
    assert lines.of(logging.WARNING) == []


def test_5_a_topic_does_not_exist(service: ThreadedService, lines: Lines) -> None:
    with odradek.Producer(**service.client_config, max_block_ms=1_000) as producer:
        for _ in range(2):
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC"):
                producer.send("nope", b"x")
    assert "create it with" in lines.one(logging.WARNING, "producer: ", "topic 'nope' does not exist")  # once
    with consumer(service, "nowhere") as member:
        member.subscribe(["nope", "t"])
        poll_until(member.assignment, member)
        for _ in range(5):
            member.poll(20)
        assert lines.one(logging.WARNING, "consumer: ", "group='nowhere'", "topic 'nope' does not exist")
    with odradek.ShareConsumer(**service.client_config, group_id="queue") as shares:
        shares.subscribe(["nope"])
        until_s = time.monotonic() + LIMIT_S
        while not any("share: " in line for line in lines.of(logging.WARNING)) and time.monotonic() < until_s:
            shares.poll(50)
        assert lines.one(logging.WARNING, "share: ", "group='queue'", "topic 'nope' does not exist")


def test_6_a_topic_is_not_authorized(service: ThreadedService, lines: Lines) -> None:
    bob = {
        "bootstrap_servers": f"kafka://{service.kafka_bootstrap_servers}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_username": "bob",
        "sasl_password": "bobs",
    }
    other = AclBinding(
        ResourceType.TOPIC, "secret", PatternType.LITERAL, "User:ann", "*", AclOperation.READ, AclPermission.ALLOW
    )
    with odradek.Admin(**service.client_config) as admin:
        admin.create_acls([other])
        try:
            with odradek.Consumer(**bob) as reader:
                reader.assign([TopicPartition("secret", 0)])
                with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
                    poll_until(lambda: False, reader)
            with odradek.Producer(**bob) as producer, pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
                producer.send("secret", b"x").result()
        finally:
            for acl in admin.describe_acls():
                if acl == other:
                    admin.delete_acls(AclFilter(resource_type=other.resource_type, name=other.name))
    line = lines.one(logging.ERROR, "consumer: ", "cannot read")
    assert "TOPIC_AUTHORIZATION_FAILED" in line
    assert "secret" in line
    assert "TOPIC_AUTHORIZATION_FAILED" in lines.one(logging.WARNING, "producer: ", "secret")


def test_7_credentials_are_wrong(service: ThreadedService, lines: Lines) -> None:
    wrong = {**service.client_config, "aws_secret_access_key": "wrong"}
    with pytest.raises(KafkaError):
        odradek.Producer(**wrong)
    line = lines.one(logging.ERROR, "producer: ", "did not start")
    assert "CLUSTER_AUTHORIZATION_FAILED" in line
    assert "check the secret access key" in line
    with pytest.raises(KafkaError):
        odradek.Consumer(
            bootstrap_servers=f"kafka://{service.kafka_bootstrap_servers}",
            security_protocol="SASL_PLAINTEXT",
            sasl_username="bob",
            sasl_password="wrong",
        )
    line = lines.one(logging.ERROR, "consumer: ", "did not start")
    assert "SASL_AUTHENTICATION_FAILED" in line
    assert "wrong user or password" in line


def test_8_a_client_is_throttled(service: ThreadedService, lines: Lines) -> None:
    entity = QuotaEntity(client_id="greedy")
    with odradek.Admin(**service.client_config) as admin:
        admin.alter_client_quotas(entity, {"producer_byte_rate": 1_000.0})
        with odradek.Producer(**service.client_config, client_id="greedy", linger_ms=0) as producer:
            until_s = time.monotonic() + LIMIT_S
            while not any("throttled" in line for line in lines.of(logging.WARNING)) and time.monotonic() < until_s:
                producer.send("t", b"x" * 2_000, partition=1).result()
        admin.alter_client_quotas(entity, {"producer_byte_rate": None})
    line = lines.one(logging.WARNING, "throttled", "client_id='greedy'")
    assert "answers Produce with a pause of" in line
    assert "a quota is exceeded" in line


def test_9_an_offset_is_out_of_range(service: ThreadedService, lines: Lines) -> None:
    with odradek.Admin(**service.client_config) as admin:
        admin.delete_records({T0: 5})
    with odradek.Consumer(**service.client_config, auto_offset_reset="earliest") as reader:
        reader.assign([T0])
        reader.seek(T0, 1)
        poll_until(lambda: reader.position(T0) >= 5, reader)
    line = lines.one(logging.WARNING, "t-0: offset 1 is out of range")
    assert "auto_offset_reset=earliest applies" in line
    assert lines.one(logging.INFO, "t-0 is read from offset 5 on")


def test_10_a_commit_is_refused_after_a_rebalance(service: ThreadedService, lines: Lines) -> None:
    slow = consumer(service, "late", max_poll_interval_ms=300, enable_auto_commit=False)
    with slow, consumer(service, "late") as other:
        poll_until(lambda: len(slow.assignment()) == len(other.assignment()) == 1, slow, other)
        poll_until(lambda: len(other.assignment()) == 2, other)
        with pytest.raises(KafkaError):
            slow.commit({T0: 7})
        line = lines.one(logging.WARNING, "commit of t [0] failed", "group='late'")
        assert "UNKNOWN_MEMBER_ID" in line


def test_a_deadline_that_passes_is_logged_with_its_cause(lines: Lines) -> None:
    from odradek.client.config import AdminConfig
    from odradek.client.connection import Connection
    from odradek.errors import ErrorCode

    class Busy:
        async def connect(self, timeout_s: float) -> None: ...
        async def call(self, *_: Any, **__: Any) -> Any:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the store is away")

        async def close(self) -> None: ...

    async def run() -> None:
        connection = Connection(AdminConfig(transport=Busy(), default_api_timeout_ms=4_000))
        with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
            await connection.metadata.refresh(["t"])

    asyncio.run(run())
    assert "the store is away" in lines.one(logging.WARNING, "metadata has failed")
    assert "the store is away" in lines.one(logging.WARNING, "metadata is given up after 4.0 s, its deadline")
