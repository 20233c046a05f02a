"""`odradek doctor` against a service, a server with a wrong clock, and the tables and queues that a profile names."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import boto3
import odradek
import pytest
from moto import mock_aws
from odradek.cli import run
from odradek.cli.service.doctor import check_store
from odradek.client.profiles import FILE, Profile, save_profile
from odradek.operations.health.checks import Finding, check_reach

REGION = "eu-west-1"
TABLES = {"LogTableName": "log", "GroupsTableName": "groups", "CatalogTableName": "catalog"}


@pytest.fixture(scope="module")
def service() -> Iterator[Any]:
    with odradek.local() as embedded:
        yield embedded


@pytest.fixture
def configured(service: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """The environment of a user of the service, who has no profile."""
    monkeypatch.setenv("HOME", str(tmp_path))
    config: dict[str, Any] = service.client_config
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVERS", config["bootstrap_servers"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", config["aws_access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", config["aws_secret_access_key"])
    return config


def outcomes(printed: str) -> list[tuple[str, str]]:
    return [(line[:4].strip(), line[5:16].strip()) for line in printed.splitlines()]


def test_a_service_that_works(configured: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    assert outcomes(capsys.readouterr().out) == [
        ("ok", "reach"),
        ("ok", "clock"),
        ("ok", "topics"),
        ("ok", "round trip"),
    ]
    with odradek.Admin(**configured) as admin:
        assert list(admin.list_topics()) == [], "the topic of the round trip is deleted"


def test_a_key_that_the_service_does_not_know(
    configured: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    assert run(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert outcomes(printed) == [("ok", "reach"), ("ok", "clock"), ("FAIL", "connect")]
    assert "the embedded service accepts only the key that `odradek local` printed" in printed


@contextmanager
def answering(status: int, date: str | None) -> Iterator[str]:
    """The URL of a server that answers everything so, with the Date header."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(status)
            if date is not None:
                self.send_header("Date", date)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("status", [200, 403, 404])
def test_the_clock_of_whatever_answers_is_compared(status: int) -> None:
    with answering(status, "Thu, 01 Jan 2015 00:00:00 GMT") as url:
        assert [(finding.outcome, finding.check) for finding in check_reach(url)] == [
            ("ok", "reach"),
            ("FAIL", "clock"),
        ]
    for date in (None, "yesterday"):
        with answering(status, date) as url:
            assert [(finding.outcome, finding.check) for finding in check_reach(url)] == [("ok", "reach")]


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The outputs of a deployment to which the user's profile points; its maintenance has a dead letter."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        sqs = boto3.client("sqs", REGION)
        dead_letters = sqs.create_queue(QueueName="dead")["QueueUrl"]
        attributes = sqs.get_queue_attributes(QueueUrl=dead_letters, AttributeNames=["QueueArn"])["Attributes"]
        policy = f'{{"deadLetterTargetArn": "{attributes["QueueArn"]}", "maxReceiveCount": "5"}}'
        queue = sqs.create_queue(QueueName="tasks", Attributes={"RedrivePolicy": policy})["QueueUrl"]
        sqs.send_message(QueueUrl=dead_letters, MessageBody="a task")
        dynamodb = boto3.client("dynamodb", REGION)
        for name in TABLES.values():
            dynamodb.create_table(
                TableName=name,
                BillingMode="PAY_PER_REQUEST",
                KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
                AttributeDefinitions=[{"AttributeName": key_name, "AttributeType": "S"} for key_name in ("pk", "sk")],
            )
            dynamodb.update_continuous_backups(
                TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
            )
        yield {**TABLES, "MaintenanceQueueUrl": queue, "MaintenanceDeadLettersUrl": dead_letters}


def found(outputs: dict[str, str]) -> list[tuple[str, str]]:
    save_profile(Profile("dev", "https://dev.example", REGION, outputs), FILE.expanduser())
    return [(finding.outcome, finding.check) for finding in check_store()]


def test_tables_and_the_queue_that_a_profile_names_are_checked(deployed: dict[str, str]) -> None:
    tables = [("ok", "tables")] * len(TABLES)
    assert found(deployed) == [*tables, ("warn", "maintenance")], "a task failed permanently"
    sqs = boto3.client("sqs", REGION)
    sqs.purge_queue(QueueUrl=deployed["MaintenanceDeadLettersUrl"])
    assert found(deployed) == [*tables, ("ok", "maintenance")]
    assert found(TABLES) == tables, "a deployment of an earlier release has no queue"
    sqs.delete_queue(QueueUrl=deployed["MaintenanceQueueUrl"])
    boto3.client("dynamodb", REGION).delete_table(TableName="groups")
    assert found(deployed) == [("ok", "tables"), ("warn", "tables"), ("warn", "maintenance")], "what cannot be read"


def test_alarms_that_ring_are_findings(deployed: dict[str, str]) -> None:
    outputs = {**deployed, "MaintenanceFunctionName": "odradek-dev-maintenance"}
    cloudwatch = boto3.client("cloudwatch", REGION)
    for name in ("odradek-dev-errors", "odradek-dev-lag", "odradek-prod-errors"):
        cloudwatch.put_metric_alarm(
            AlarmName=name,
            AlarmDescription=f"see {name} in the runbook",
            MetricName="m",
            Namespace="n",
            Statistic="Sum",
            Period=60,
            EvaluationPeriods=1,
            Threshold=1.0,
            ComparisonOperator="GreaterThanThreshold",
        )
    assert found(outputs)[-1] == ("ok", "alarms")
    for name in ("odradek-dev-lag", "odradek-prod-errors"):
        cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="it is late")
    [finding] = [finding for finding in check_store() if finding.check == "alarms"]
    assert (finding.outcome, "lag rings: see odradek-dev-lag" in finding.text) == ("warn", True)


def test_tables_with_provisioned_capacity_are_compared_with_the_stage_and_their_load(deployed: dict[str, str]) -> None:
    outputs = {**TABLES, "LogTableCapacity": "writes=100-1000 reads=200-2000 target=70"}

    def of_the_log() -> list[Finding]:
        save_profile(Profile("dev", "https://dev.example", REGION, outputs), FILE.expanduser())
        return [finding for finding in check_store() if finding.text.startswith("log")]

    [mode, scaling] = of_the_log()
    assert mode[:2] == ("warn", "tables")
    assert "is on demand, and its stage says provisioned" in mode[2]
    assert "has writes that nothing scales: deploy again; it has reads that nothing scales" in scaling[2]
    boto3.client("dynamodb", REGION).update_table(
        TableName="log",
        BillingMode="PROVISIONED",
        ProvisionedThroughput={"WriteCapacityUnits": 1000, "ReadCapacityUnits": 2000},
    )
    autoscaling = boto3.client("application-autoscaling", REGION)
    for dimension, least, most in (("Write", 100, 1000), ("Read", 200, 2000)):
        autoscaling.register_scalable_target(
            ServiceNamespace="dynamodb",
            ResourceId="table/log",
            ScalableDimension=f"dynamodb:table:{dimension}CapacityUnits",
            MinCapacity=least,
            MaxCapacity=most,
        )
    assert of_the_log() == [
        ("ok", "tables", "log: provisioned capacity, point-in-time recovery"),
        ("ok", "capacity", "log: at most 0 of 1,000 writes, 0 of 2,000 reads a second of late, none throttled"),
    ]
    now = datetime.now(UTC)
    used = [
        ("ConsumedWriteCapacityUnits", 900 * 300, now - timedelta(minutes=50)),  # it has passed
        ("ConsumedReadCapacityUnits", 1500 * 300, now - timedelta(minutes=6)),
        ("WriteThrottleEvents", 7, now - timedelta(minutes=50)),
    ]
    boto3.client("cloudwatch", REGION).put_metric_data(
        Namespace="AWS/DynamoDB",
        MetricData=[
            {
                "MetricName": name,
                "Dimensions": [{"Name": "TableName", "Value": "log"}],
                "Timestamp": at,
                "Value": value,
            }
            for name, value, at in used
        ],
    )
    [mode, (outcome, check, text)] = of_the_log()
    assert (mode[0], outcome, check) == ("ok", "warn", "capacity")
    assert "is at the maximum of its reads: 1,500 units a second" in text
    assert "throttled 7 requests" in text
    assert "its writes" not in text
    outputs["LogTableCapacity"] = "of a later release"
    save_profile(Profile("dev", "https://dev.example", REGION, outputs), FILE.expanduser())
    findings = [(finding.outcome, finding.check) for finding in check_store()]
    assert findings[:2] == [("warn", "tables"), ("warn", "capacity")]
