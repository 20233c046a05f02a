"""The suite for every deployment of Odradek; a fixture `deployed` names the one to test.

    tests/localstack   the stacks in LocalStack (make localstack)
    tests/deployed     a real account's stack, or any address (make e2e)

Everything that it makes is named `e2e-<run>-...`; `clean_up` removes it, and what a run that died left behind.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any, Protocol
from uuid import uuid4

import odradek
import pytest
from odradek import OffsetAndMetadata, TopicPartition

from tests.support.counted import at_least

PREFIX = "e2e-"
DELETIONS_S = 120.0


class Deployment(Protocol):
    """The deployment that the suite tests."""

    run: str  # part of every name
    outputs: Mapping[str, str]  # of the stacks; empty where only an address is known

    @property
    def client_config(self) -> dict[str, Any]: ...

    def client(self, service: str) -> Any: ...


def new_run() -> str:
    """A name of a run."""
    return f"{PREFIX}{uuid4().hex[:8]}"


def clean_up(deployed: Deployment, prefix: str) -> list[str]:
    """Delete topics and groups of that prefix, and what they stored; what is left of them (nothing)."""
    with odradek.Admin(**deployed.client_config) as admin:
        topics = [name for name in admin.list_topics() if name.startswith(prefix)]
        groups = [group.group_id for group in admin.list_consumer_groups() if group.group_id.startswith(prefix)]
        if topics:
            admin.delete_topics(topics)
        if groups:
            admin.delete_consumer_groups(groups)
        if topics and deployed.outputs:
            finish_deletions(deployed)  # removes the objects
        left = [name for name in admin.list_topics() if name.startswith(prefix)]
        return left + [group.group_id for group in admin.list_consumer_groups() if group.group_id.startswith(prefix)]


def plan(deployed: Deployment) -> dict[str, Any]:
    """One run of the function that plans maintenance; its report."""
    name = deployed.outputs["MaintenanceFunctionName"]
    response = deployed.client("lambda").invoke(FunctionName=name, Payload=b"{}")
    report: dict[str, Any] = json.loads(response["Payload"].read())
    assert "FunctionError" not in response, report
    assert report["finished"]
    assert not report["failures"]
    return report


def finish_deletions(deployed: Deployment) -> int:
    """Plan until the maintainers have left no deleted topic to be planned; how many there were at first."""
    deadline = time.monotonic() + DELETIONS_S
    planned = left = plan(deployed)["planned"].get("topic_deletion", 0)
    while left:
        assert time.monotonic() < deadline, f"{left} deleted topics are still there after {DELETIONS_S:.0f} s"
        time.sleep(1)
        left = plan(deployed)["planned"].get("topic_deletion", 0)
    return int(planned)


@pytest.fixture
def config(deployed: Deployment) -> dict[str, Any]:
    return deployed.client_config


@pytest.fixture
def topic(deployed: Deployment, config: dict[str, Any]) -> str:
    name = f"{deployed.run}-{uuid4().hex[:8]}"
    with odradek.Admin(**config) as admin:
        admin.create_topics([odradek.NewTopic(name, num_partitions=3)])
    return name


@pytest.fixture
def stacks(deployed: Deployment) -> Deployment:
    if not deployed.outputs:
        pytest.skip("only an address is known: name the stack (STACK=...) to look at its resources")
    return deployed


def test_every_record_once_through_functions_and_a_group(config: dict[str, Any], topic: str) -> None:
    sent = {b"%d" % i: os.urandom(10 if i % 2 else 3_000) for i in range(200)}  # items and objects
    with odradek.Producer(**config, linger_ms=20, compression_type="lz4") as producer:
        for key, value in sent.items():
            producer.send(topic, key=key, value=value, headers=[("h", b"1")])
    values_by_key: dict[bytes, bytes] = {}
    with odradek.Consumer(**config, group_id=f"{topic}-g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        for _ in range(120):
            for records in consumer.poll(timeout_ms=1000).values():
                for record in records:
                    assert record.key not in values_by_key
                    values_by_key[record.key] = record.value
            if len(values_by_key) == len(sent):
                break
        consumer.commit()
    assert values_by_key == sent
    with odradek.Consumer(**config, group_id=f"{topic}-g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        assert not any(consumer.poll(timeout_ms=3000).values())  # the group goes on where it was


def test_a_transaction_shows_whole_or_not_at_all(config: dict[str, Any], topic: str) -> None:
    tps = [TopicPartition(topic, number) for number in range(3)]
    with odradek.Producer(**config, transactional_id=f"{topic}-tx") as producer:
        producer.init_transactions()
        for commit in (False, True):
            producer.begin_transaction()
            for tp in tps:
                producer.send(topic, b"yes" if commit else b"no", partition=tp.partition)
            producer.commit_transaction() if commit else producer.abort_transaction()
    with odradek.Consumer(**config) as consumer:
        assert consumer.end_offsets(tps) == dict.fromkeys(tps, 1)


def test_commits_are_kept_for_a_group(config: dict[str, Any], topic: str) -> None:
    tp = TopicPartition(topic, 0)
    with odradek.Admin(**config) as admin:
        admin.alter_consumer_group_offsets(f"{topic}-g", {tp: OffsetAndMetadata(7)})
        assert admin.list_consumer_group_offsets(f"{topic}-g")[tp].offset == 7


def test_errors_have_kafkas_names(config: dict[str, Any], topic: str) -> None:
    with odradek.Admin(**config) as admin, pytest.raises(odradek.KafkaError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([odradek.NewTopic(topic, num_partitions=1)])


def test_maintenance_finishes_a_deletion(stacks: Deployment, config: dict[str, Any], topic: str) -> None:
    with odradek.Producer(**config) as producer:
        producer.send(topic, value=b"x" * 20_000)
    with odradek.Admin(**config) as admin:
        admin.delete_topics([topic])
    assert finish_deletions(stacks) >= 1


def test_nothing_of_the_bucket_is_public(stacks: Deployment) -> None:
    access = stacks.client("s3").get_public_access_block(Bucket=stacks.outputs["BucketName"])
    assert all(at_least(4, access["PublicAccessBlockConfiguration"].values()))


def test_what_the_suite_made_is_gone_after_it(deployed: Deployment, topic: str) -> None:
    """The last one: the others' topics and groups as well."""
    with odradek.Producer(**deployed.client_config) as producer:
        producer.send(topic, value=b"left")
    assert clean_up(deployed, deployed.run) == []
