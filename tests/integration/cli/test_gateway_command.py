"""`odradek gateway` and `odradek completion`, as a user runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from odradek.cli import run
from odradek.client.serializers import HttpRegistry, Schema

from tests.support.kafka import port
from tests.support.kafka.port import Message


def test_the_kafka_port_alone_over_an_embedded_store(tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    command = [sys.executable, "-m", "odradek.cli", "gateway", "--store", f"embedded:{tmp_path}", "--listen",
               "127.0.0.1:0", "--registry-listen", "127.0.0.1:0"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        servers = process.stdout.readline().split()[-1]
        url = process.stdout.readline().split()[-1]
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(20)
        assert port.confluent_produce(servers, "t", [Message(b"k", b"v")]) == [0]
        assert port.confluent_consume(servers, "t", 1) == [Message(b"k", b"v")]
        assert HttpRegistry(url).register("t-value", Schema('"string"')) == 1
        second = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert second.returncode == 2
        assert "Traceback" not in second.stderr
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("arguments", [["--store", "s3"], ["--listen", "9092"], ["--registry-listen", "a:b"],
                                       ["--store", "aws"]])  # fmt: skip
def test_what_cannot_be_is_told(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ODRADEK_LOG_TABLE", raising=False)
    assert run(["gateway", *arguments]) == 2
    assert "odradek: INVALID_CONFIG" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_odradek(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_ODRADEK_COMPLETE=complete_" in capsys.readouterr().out
