"""SDK -> function URL -> packaged function -> DynamoDB and S3 -> consumer group -> maintenance, in LocalStack."""

from __future__ import annotations

import json
import os
from typing import Any
from uuid import uuid4

import odradek
import pytest

from tests.localstack.deployment import Deployed


@pytest.fixture
def config(deployed: Deployed) -> dict[str, Any]:
    return {"bootstrap_servers": deployed.coordinator_url}


@pytest.fixture
def topic(config: dict[str, Any]) -> str:
    name = f"t-{uuid4().hex[:8]}"
    with odradek.Admin(**config) as admin:
        admin.create_topics([odradek.NewTopic(name, num_partitions=3)])
    return name


def test_every_record_once_through_functions_and_a_group(config: dict[str, Any], topic: str) -> None:
    sent = {b"%d" % i: os.urandom(10 if i % 2 else 3_000) for i in range(200)}  # items and objects
    with odradek.Producer(**config, linger_ms=20, compression_type="lz4") as producer:
        for key, value in sent.items():
            producer.send(topic, key=key, value=value, headers=[("h", b"1")])
    seen: dict[bytes, bytes] = {}
    with odradek.Consumer(**config, group_id=f"g-{topic}", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        for _ in range(120):
            for records in consumer.poll(timeout_ms=1000).values():
                for record in records:
                    assert record.key not in seen
                    seen[record.key] = record.value
            if len(seen) == len(sent):
                break
        consumer.commit()
    assert seen == sent
    with odradek.Consumer(**config, group_id=f"g-{topic}", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        assert not any(consumer.poll(timeout_ms=3000).values())  # the group goes on where it was


def test_errors_have_kafkas_names(config: dict[str, Any], topic: str) -> None:
    with odradek.Admin(**config) as admin, pytest.raises(odradek.KafkaError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([odradek.NewTopic(topic, num_partitions=1)])


def test_maintenance_finishes_a_deletion(deployed: Deployed, config: dict[str, Any], topic: str) -> None:
    with odradek.Producer(**config) as producer:
        producer.send(topic, value=b"x" * 20_000)
    with odradek.Admin(**config) as admin:
        admin.delete_topics([topic])
    answer = deployed.client("lambda").invoke(FunctionName="odradek-dev-maintenance", Payload=b"{}")
    report = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, report
    assert report["finished"]
    assert report["topics_removed"] >= 1
    assert not report["failures"]


def test_the_bucket_holds_what_was_produced_and_nothing_public(deployed: Deployed, topic: str) -> None:
    s3 = deployed.client("s3")
    bucket = deployed.outputs["BucketName"]
    assert s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]["BlockPublicPolicy"]
