"""The gateway as a container runs it: environment, AWS's tables, health, SIGTERM."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from typing import Any

import pytest
from odradek.client.serializers import HttpRegistry, Schema
from odradek.errors import KafkaError
from odradek.gateway.__main__ import listener_from_env
from odradek.gateway.cloudwatch import GATEWAY_METRICS
from odradek.gateway.server import Listener

from tests.support.kafka import port
from tests.support.kafka.port import Message
from tests.support.stores import aws


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def start(environment: dict[str, str]) -> subprocess.Popen[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-m", "odradek.gateway"],
        env={**kept, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_container_serves_kafka_over_aws_and_stops_in_order() -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    health = free_port()
    with aws.moto_server() as endpoint:
        names = aws.create_tables(endpoint)
        environment: dict[str, Any] = {
            **aws.CREDENTIALS,
            "AWS_REGION": aws.REGION,
            "ODRADEK_LOG_TABLE": names.log_table,
            "ODRADEK_GROUPS_TABLE": names.groups_table,
            "ODRADEK_CATALOG_TABLE": names.catalog_table,
            "ODRADEK_BUCKET": names.bucket,
            "ODRADEK_ENDPOINT_URL": endpoint,
            "ODRADEK_GATEWAY_LISTEN": "127.0.0.1:0",
            "ODRADEK_GATEWAY_BROKER_ID": "3",
            "ODRADEK_GATEWAY_REGISTRY_LISTEN": "127.0.0.1:0",
            "ODRADEK_GATEWAY_HEALTH_PORT": str(health),
            "ODRADEK_GATEWAY_METRICS": "emf",
        }
        process = start(environment)
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            servers = ready["bootstrap_servers"]
            registry = HttpRegistry(ready["registry"])
            assert registry.register("t-value", Schema('"string"')) == 1  # over DynamoDB's transactions
            assert registry.register("other-value", Schema('{"type": "string"}')) == 1
            assert registry.register("t-value", Schema('["null", "string"]')) == 2
            assert urllib.request.urlopen(f"http://127.0.0.1:{health}/").status == 200
            admin = AdminClient({"bootstrap.servers": servers})
            admin.create_topics([NewTopic("t", 1, 1)])["t"].result(20)
            messages = [Message(b"k", b"v%d" % i) for i in range(10)]
            assert port.confluent_produce(servers, "t", messages) == list(range(10))
            assert port.confluent_consume(servers, "t", 10) == messages
            with urllib.request.urlopen(f"http://127.0.0.1:{health}/metrics") as response:
                assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
                served = response.read().decode()
            assert 'odradek_requests_total{function="kafka",api="PRODUCE",status="200"}' in served
            process.terminate()
            assert process.wait(20) == 0
            last = json.loads(process.stdout.read().splitlines()[-1])
            [directive] = last["_aws"]["CloudWatchMetrics"]
            assert directive["Dimensions"] == [["cluster_id", "function"]]
            assert {metric["Name"] for metric in directive["Metrics"]} == {name for name, _ in GATEWAY_METRICS}
            assert last["function"] == "kafka"
            assert last["requests"] >= 3
            assert 1 <= len(last["duration_ms"]) <= 100
            assert last["table_write_units"] >= 5  # a topic, its head, the appends
        finally:
            process.kill()
            process.communicate()


def test_without_a_store_it_says_what_it_lacks() -> None:
    process = start({})
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    [line] = errors.splitlines()
    assert "ODRADEK_LOG_TABLE" in line


def test_where_it_listens() -> None:
    assert listener_from_env({}) == Listener("0.0.0.0", 9092)
    options = {"LISTEN": "[::]:9", "ADVERTISED": "kafka.example:19092", "SASL": "true"}
    listener = listener_from_env({f"ODRADEK_GATEWAY_{name}": value for name, value in options.items()})
    assert listener == Listener("::", 9, "kafka.example:19092", sasl=True)
    for text in ("here", "here:x", "0.0.0.0:70000"):
        with pytest.raises(KafkaError, match=f"ODRADEK_GATEWAY_LISTEN must be host:port, not '{text}'"):
            listener_from_env({"ODRADEK_GATEWAY_LISTEN": text})
