"""The embedded service as a process of its own, and as `odradek.local()` in this one."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from odradek.errors import KafkaError
from odradek.format.record_batch import decode_batches
from odradek.local import Credentials, load_credentials

from tests.support.engine import batch
from tests.support.services.signed_http import create_topic, fetch, produce


@dataclass(frozen=True, slots=True)
class Running:
    """A service in another process."""

    process: subprocess.Popen[str]
    bootstrap_servers: str
    credentials: Credentials


def spawn(data_dir: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "odradek.local", "--data-dir", str(data_dir), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def running(data_dir: Path, *options: str) -> Iterator[Running]:
    process = spawn(data_dir, *options)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        assert line, process.stderr.read()
        ready: dict[str, Any] = json.loads(line)
        assert ready["data_dir"] == str(data_dir.resolve())
        yield Running(process, ready["bootstrap_servers"], load_credentials(data_dir))
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


async def test_everything_acknowledged_survives_sigkill(tmp_path: Path) -> None:
    acknowledged: dict[int, bytes] = {}

    async def write(service: Running) -> None:
        await create_topic(service, "t")
        for number in range(1_000_000):
            value = b"%d " % number * (1 if number % 3 else 5_000)  # as items and as objects
            response = await produce(service, "t", batch([value]))
            acknowledged[response.base_offset] = value

    with running(tmp_path) as service:
        writing = asyncio.create_task(write(service))
        while len(acknowledged) < 20:
            await asyncio.sleep(0.01)
            assert not writing.done(), writing.exception()
        service.process.send_signal(signal.SIGKILL)
        service.process.wait()
        with pytest.raises(Exception):  # noqa: B017  (whatever a cut connection is)
            await writing
    with running(tmp_path) as service:
        stored: dict[int, bytes | None] = {}
        while True:
            response = await fetch(service, "t", len(stored))
            records = decode_batches(bytes(response.records or b""), allow_truncated=True)
            values_by_offset = {record.offset: record.value for record in records if record.offset >= len(stored)}
            if not values_by_offset:
                break
            stored |= values_by_offset
    assert acknowledged.items() <= stored.items()
    assert len(stored) <= len(acknowledged) + 1  # the one in flight, at most once
    assert sorted(stored) == list(range(len(stored)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stops_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path) as service:
        service.process.send_signal(number)
        out, err = service.process.communicate(timeout=60)
        assert (service.process.returncode, out, err) == (0, "", "")


def test_a_second_process_on_the_same_data_fails_with_one_line(tmp_path: Path) -> None:
    with running(tmp_path):
        second = spawn(tmp_path)
        out, err = second.communicate(timeout=60)
        assert (second.returncode, out) == (2, "")
        assert err.count("\n") == 1
        assert "in use" in err


def test_a_bad_setting_fails_with_one_line(tmp_path: Path) -> None:
    out = subprocess.run(
        [sys.executable, "-m", "odradek.local", "--data-dir", str(tmp_path)],
        env={**os.environ, "ODRADEK_SPILL_ENTRIES": "many"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert out.returncode == 2
    assert out.stderr.startswith("odradek: INVALID_CONFIG: ODRADEK_SPILL_ENTRIES")
    assert out.stderr.count("\n") == 1


def test_odradek_local_is_a_call() -> None:
    local: Any = importlib.import_module("odradek.local")
    with local(synchronous="NORMAL") as service:
        data_dir = service.data_dir
        assert (data_dir / "odradek.db").exists()
        asyncio.run(create_topic(service, "t"))
        assert asyncio.run(produce(service, "t", batch([b"v"]))).base_offset == 0
        assert service.meter.total.usage.function_requests == 2
        assert service.client_config["bootstrap_servers"] == service.bootstrap_servers
    assert not data_dir.exists()
    service.stop()  # may be repeated


def test_odradek_local_raises_where_it_cannot_start(tmp_path: Path) -> None:
    local: Any = importlib.import_module("odradek.local")
    with local(tmp_path, synchronous="NORMAL"), pytest.raises(KafkaError, match="in use"):
        local(tmp_path)
