"""Clients of other languages that `make java` fetches: kafkajs (npm), sarama and franz-go (Go modules).

All consume, transform and produce exactly once; kafkajs and sarama name no member of their group when they commit its
offsets in the transaction. kafkajs also goes on after an offset was out of range: it commits a negative one first.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import odradek
import pytest
from odradek.local import ThreadedService

from tests.support.kafka import port

PROGRAMS = Path(__file__).parent
KAFKAJS = "kafkajs@2.2.4"
FRANZ_GO = "github.com/twmb/franz-go@v1.20.5"
FRANZ_GO_RECORDS = 5_000
COUNT = 20
pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]


@pytest.fixture
def service() -> Iterator[ThreadedService]:
    with port.kafka_service() as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic(name, 1) for name in ("in", "out")])
        yield service


def run(command: list[str], folder: Path, timeout_s: int = 300, environment: Mapping[str, str] | None = None) -> str:
    """Return the output of a program; its failure shows the output, too."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not on this machine")
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout[-5_000:]
    return done.stdout


def check_exactly_once(service: ThreadedService, group_id: str) -> None:
    values = [message.value for message in port.sdk_consume(service, "out", COUNT)]
    assert values == [b"seen %d" % i for i in range(COUNT)]
    with odradek.Admin(**service.client_config) as admin:
        tp = odradek.TopicPartition("in", 0)
        assert admin.list_consumer_group_offsets(group_id)[tp].offset == COUNT
        assert admin.list_offsets({odradek.TopicPartition("out", 0): "latest"}).popitem()[1].offset == COUNT


def test_kafkajs(service: ThreadedService, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text(json.dumps({"private": True}))
    run(["npm", "install", "--no-audit", "--no-fund", KAFKAJS], tmp_path)
    shutil.copy(PROGRAMS / "kafkajs" / "consume_transform_produce.js", tmp_path)
    said = run(["node", "consume_transform_produce.js", service.kafka_bootstrap_servers], tmp_path)
    assert f"recovered {COUNT}" in said
    check_exactly_once(service, "ctp")


def test_sarama(service: ThreadedService, tmp_path: Path) -> None:
    shutil.copytree(PROGRAMS / "sarama", tmp_path, dirs_exist_ok=True)
    run(["go", "mod", "tidy"], tmp_path)
    run(["go", "run", ".", service.kafka_bootstrap_servers], tmp_path)
    check_exactly_once(service, "ctp")


@pytest.mark.timeout(1_500)
def test_franz_go(tmp_path: Path) -> None:
    """franz-go's own tests of chains that consume, transform and produce, in transactions and without.

    They compare the offsets that records in transactions are told. Where several members write to the same partitions
    these abort each other, and go on.
    """
    (tmp_path / "go.mod").write_text("module odradek.example/franz-go\n\ngo 1.24\n")
    module = json.loads(run(["go", "mod", "download", "-json", FRANZ_GO], tmp_path))
    source = tmp_path / "franz-go"
    shutil.copytree(module["Dir"], source, copy_function=shutil.copyfile)
    run(["chmod", "-R", "u+w", str(source)], tmp_path)
    command = ["go", "test", "-run", "^(TestTxnEtl|TestGroupETL)$", "-timeout", "15m", "./pkg/kgo"]
    with port.kafka_service(transaction_offsets_predicted="*") as service:
        environment = {
            "KGO_SEEDS": service.kafka_bootstrap_servers,
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": str(FRANZ_GO_RECORDS),
            "KGO_TEST_STABLE_FETCH": "1",
        }
        assert "ok" in run(command, source, 1_200, environment)
