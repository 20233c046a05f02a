"""Kafka Connect with exactly.once.source.support while its worker and the service are killed: each record once.

`make java`; ODRADEK_JAVA_KILLS makes it longer.
"""

from __future__ import annotations

import json
import os
import random
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.java.programs import JavaProgram
from tests.support.clients.numbered import Sent, judge, read_back
from tests.support.clients.numbered_producers import create_topic, wait_for_records
from tests.support.kafka.port import until
from tests.support.services.slow_service import RunningService, Unkindness, free_ports

pytestmark = [pytest.mark.java, pytest.mark.timeout(1_800)]

KILLS = int(os.environ.get("ODRADEK_JAVA_KILLS", "6"))
PARTITIONS = 2
RECORDS = 250 * KILLS  # a partition: enough that the last kill finds some left
SERVICE_KILLED_EVERY = 3  # of the kills of the worker
CONNECTOR = {
    "connector.class": "odradek.NumberedSource",
    "tasks.max": str(PARTITIONS),
    "topic": "numbers",
    "producer": "connect",
    "records": str(RECORDS),
    "poll.records": "5",
    "poll.ms": "100",
    "exactly.once.support": "required",
}


def test_source_records_over_kills(tmp_path: Path) -> None:
    rng = random.Random(1)
    service = RunningService(tmp_path / "data", Unkindness(late_every=50, late_ms=800))
    [rest_port] = free_ports(1)
    with service:
        create_topic(service.servers, "numbers", PARTITIONS)
        properties = worker_properties(tmp_path, service.servers, rest_port)
        for kill in range(1, KILLS + 1):
            with worker(tmp_path, properties) as running:
                until(lambda: tasks_running(rest_port) == PARTITIONS, 180, running.tail())
                time.sleep(rng.uniform(1, 4))
                if kill % SERVICE_KILLED_EVERY == 0:
                    service.kill()
                    time.sleep(rng.uniform(0, 1))
                    service.start()
                    time.sleep(rng.uniform(1, 3))
        with worker(tmp_path, properties) as running:
            wait_for_records(service.servers, "numbers", PARTITIONS, PARTITIONS * RECORDS, timeout_s=240)
            time.sleep(2)  # for what would be too many
            tail = running.tail()

    sent = Sent()
    for partition in range(PARTITIONS):
        sent.counts["connect", partition] = RECORDS
    findings = judge(sent, read_back(service.data_dir, "numbers", committed=True)["numbers"])
    kills = f"{KILLS} kills of the worker, {KILLS // SERVICE_KILLED_EVERY} of the service"
    print(f"\nConnect: {kills}: {findings}")
    assert findings.is_exact, tail


def worker(folder: Path, properties: Path) -> JavaProgram:
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    return JavaProgram(main, str(properties), log=folder / "connect.log")


def worker_properties(folder: Path, servers: str, rest_port: int) -> Path:
    """A worker's file; topics of its own have one replica and few partitions."""
    converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
    values = {
        "bootstrap.servers": servers,
        "group.id": "connect",
        "key.converter": converter,
        "value.converter": converter,
        "exactly.once.source.support": "enabled",
        "listeners": f"http://127.0.0.1:{rest_port}",
        "plugin.discovery": "service_load",
        "offset.flush.interval.ms": "1000",
        # A killed worker is missed within seconds.
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "rebalance.timeout.ms": "10000",
        "scheduled.rebalance.max.delay.ms": "0",
    }
    for topic_use in ("config", "offset", "status"):
        values |= {f"{topic_use}.storage.topic": f"connect-{topic_use}", f"{topic_use}.storage.replication.factor": "1"}
    values |= {"offset.storage.partitions": "2", "status.storage.partitions": "1"}
    path = folder / "worker.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return path


def tasks_running(rest_port: int) -> int:
    """How many tasks of the connector run; creates it where the worker does not know it."""
    try:
        status = _rest(rest_port, "GET", "/connectors/numbered/status")
    except OSError as error:
        if getattr(error, "code", 0) == 404:
            with_retry = _rest_or_none(rest_port, "PUT", "/connectors/numbered/config", CONNECTOR)
            assert with_retry is None or with_retry["name"] == "numbered"
        return 0
    failed = [task["trace"] for task in status["tasks"] if task["state"] == "FAILED"]
    assert failed == []
    return sum(task["state"] == "RUNNING" for task in status["tasks"])


def _rest(port: int, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def _rest_or_none(port: int, method: str, path: str, body: Any) -> Any:
    """None while the worker rebalances (409) or is not ready."""
    try:
        return _rest(port, method, path, body)
    except OSError:
        return None
