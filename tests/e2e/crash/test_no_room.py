"""A full disk and a directory that cannot be written: a clear error, nothing lost, and it goes on when there is room.

The disk is a small tmpfs in a mount namespace of the worker's own, the read-only directory a read-only bind mount in
one: both hold for root as well. Where this machine lets nobody mount, a limit on the size of files plays the full disk.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import odradek
import pytest
from odradek.aio import Admin, Consumer, Producer
from odradek.errors import ErrorCode, KafkaError

from tests.e2e.crash.log_ledger import Ledger, value_of
from tests.e2e.crash.services import Services

TOPIC = odradek.TopicPartition("t", 0)
IMPATIENT = {"enable_idempotence": False, "retries": 0, "linger_ms": 0}  # the first error reaches the caller
PATIENT = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 50, "delivery_timeout_ms": 600_000, "linger_ms": 0}
SIZES = (100, 20_000)  # as an item of the table, as an object


def in_own_mounts(commands: str) -> tuple[str, ...]:
    """A prefix that runs a command after some mounts, which only it sees."""
    return ("unshare", "--map-root-user", "--mount", "sh", "-ec", f'{commands}; exec "$@"', "sh")


def works(*prefix: str) -> bool:
    """Return True if this machine lets the prefix run a command."""
    try:
        return subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@asynccontextmanager
async def on_a_small_disk(folder: Path) -> AsyncIterator[tuple[Services, Path]]:
    """Services on a disk of a few MB, and the way there from this process."""
    mount = f"mount -t tmpfs -o size=6m none {shlex.quote(str(folder))}"
    if not works(*in_own_mounts(mount)):
        pytest.skip("nobody may mount a tmpfs here: the limit of file sizes below plays the full disk alone")
    async with Services(folder, under=in_own_mounts(mount)) as services:
        assert await services.start() is None
        services.seen_at = Path(f"/proc/{services.worker_pid}/root{folder}")
        yield services, services.seen_at


def fill(folder: Path) -> Path:
    """Take all the room that is left, to the last byte; returns what to remove."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        size = 1 << 16
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2
    return ballast


async def create_topic(services: Services) -> None:
    async with Admin(**services.client_config) as admin:
        await admin.create_topics([odradek.NewTopic(TOPIC.topic, num_partitions=1)])


async def write(producer: Producer, ledger: Ledger, count: int, name: str) -> None:
    """Records of both sizes, acknowledged."""
    for number in range(count):
        value = value_of(name, number, SIZES[number % 2])
        metadata = await producer.send_and_wait(TOPIC.topic, value)
        ledger.acknowledge(metadata.partition, metadata.offset, value)


async def check(services: Services, ledger: Ledger) -> int:
    async with Consumer(**services.client_config, fetch_max_wait_ms=5) as consumer:
        consumer.assign([TOPIC])
        return await ledger.check(consumer, whole=True)


async def test_a_full_disk_refuses_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    ledger = Ledger([TOPIC])
    async with on_a_small_disk(tmp_path) as (services, folder):
        await create_topic(services)
        async with (
            Producer(**services.client_config, **IMPATIENT) as impatient,
            Producer(**services.client_config, **PATIENT) as patient,
        ):
            await write(impatient, ledger, 10, "before")
            ballast = fill(folder)
            waiting = await patient.send(TOPIC.topic, value_of("patient", 0, 100))
            for size in SIZES:
                with pytest.raises(KafkaError, match="nothing was appended") as refused:
                    await impatient.send_and_wait(TOPIC.topic, value_of("refused", size, size))
                assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
                assert "no room" in str(refused.value)
            assert await check(services, ledger) == 10, "what is there can be read"
            assert not waiting.done()
            ballast.unlink()
            metadata = await waiting
            ledger.acknowledge(metadata.partition, metadata.offset, value_of("patient", 0, 100))
            await write(impatient, ledger, 10, "after")
            assert await check(services, ledger) == 21
        await services.kill()
        assert await services.start() is None
        assert await check(services, ledger) == 21
        assert services.errors == ""


async def test_a_service_starts_on_a_full_disk_or_says_why_not(tmp_path: Path) -> None:
    ledger = Ledger([TOPIC])
    async with on_a_small_disk(tmp_path) as (services, folder):
        await create_topic(services)
        async with Producer(**services.client_config, **IMPATIENT) as producer:
            await write(producer, ledger, 10, "before")
            await services.kill()
            fill(folder)
            assert await services.start() is None, "the files are there already"
            assert await check(services, ledger) == 10
            with pytest.raises(KafkaError, match="nothing was appended"):
                await producer.send_and_wait(TOPIC.topic, b"x" * 100)
            await services.kill()
            (folder / "ballast").unlink()
            (folder / "credentials.json").rename(folder / "kept")
            fill(folder)
            refusal = await services.start()
            assert refusal is not None
            assert "No space left on device" in refusal
            (folder / "ballast").unlink()
            (folder / "kept").rename(folder / "credentials.json")
            assert await services.start() is None
            await write(producer, ledger, 4, "after")
        assert await check(services, ledger) == 14
        assert [line for line in services.errors.splitlines() if "address.json" not in line] == []


@pytest.mark.slow
async def test_a_limit_on_file_sizes_refuses_and_loses_nothing(tmp_path: Path) -> None:
    """The same without any mount; the kernel says EFBIG where it said ENOSPC.

    Slow: the client tries for seconds before it gives up, and the service starts three times.
    """
    ledger = Ledger([TOPIC])
    async with Services(tmp_path) as services:
        assert await services.start() is None
        await create_topic(services)
        async with Producer(**services.client_config, **IMPATIENT) as producer:
            await write(producer, ledger, 10, "before")
            await services.kill()
            assert await services.start(file_bytes_max=200_000) is None
            with pytest.raises(KafkaError) as refused:
                for number in range(1_000):
                    metadata = await producer.send_and_wait(TOPIC.topic, value_of("filling", number, 4_000))
                    ledger.acknowledge(metadata.partition, metadata.offset, value_of("filling", number, 4_000))
            assert refused.value.is_retryable
            await check(services, ledger)
            await services.kill()
            assert await services.start() is None
            await check(services, ledger)
            await write(producer, ledger, 10, "after")
        await check(services, ledger)
        assert services.errors == ""


@pytest.fixture
def read_only(tmp_path: Path) -> tuple[str, ...]:
    """Return the prefix of a command to which `tmp_path` is read-only."""
    folder = shlex.quote(str(tmp_path))
    commands = f"mount --bind {folder} {folder}; mount -o remount,ro,bind {folder}"
    if not works(*in_own_mounts(commands)):
        pytest.skip("nobody may mount anything here, and permissions do not stop root")
    return in_own_mounts(commands)


async def test_a_read_only_directory_is_refused_and_its_log_is_there_afterwards(
    tmp_path: Path, read_only: tuple[str, ...]
) -> None:
    ledger = Ledger([TOPIC])
    async with Services(tmp_path) as services:
        assert await services.start() is None
        await create_topic(services)
        async with Producer(**services.client_config, **IMPATIENT) as producer:
            await write(producer, ledger, 10, "before")
        await services.kill()
        async with Services(tmp_path, under=read_only) as stuck:
            refusal = await stuck.start()
            assert refusal is not None
            assert "cannot write to" in refusal
            assert "Read-only file system" in refusal
            assert stuck.errors == ""
        assert await services.start() is None
        assert await check(services, ledger) == 10


async def test_a_directory_that_cannot_be_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    async with Services(tmp_path / "file" / "data") as services:
        refusal = await services.start()
        assert refusal is not None
        assert "INVALID_CONFIG" in refusal
        assert "Not a directory" in refusal
        assert services.errors == ""


async def test_a_directory_without_permission_is_refused_in_one_line(tmp_path: Path) -> None:
    # Root may write anywhere unless it gives that up.
    humbly = ("setpriv", "--bounding-set", "-dac_override") if os.geteuid() == 0 else ()
    if humbly and not works(*humbly):
        pytest.skip("permissions do not stop root here")
    tmp_path.chmod(0o555)
    async with Services(tmp_path, under=humbly) as services:
        refusal = await services.start()
        assert refusal is not None
        assert "Permission denied" in refusal
        assert services.errors == ""
