"""The other side of worker.py: a loaded service, the memory it holds, the clients that load it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from odradek import TopicPartition
from odradek.aio import Consumer, Producer
from odradek.errors import KafkaError
from odradek.local import load_credentials

from tests.e2e.crash.log_ledger import Ledger, value_of

TOPIC = "loaded"
OUTSTANDING = 16  # records of one producer without an answer
SIZES = (0, 100, 100, 400, 6_000)  # items, and now and then an object


@dataclass
class LoadedService:
    """A service of worker.py. Use it as an async context manager."""

    data_dir: Path
    share: float
    seed: int = 0

    async def __aenter__(self) -> Self:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.e2e.load.worker", str(self.data_dir), str(self.share), str(self.seed)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._address = (await self._line("ready")).split()[1]
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(30):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._errors.close()

    @property
    def errors(self) -> str:
        """Return its standard error: nothing, where nothing unforeseen happened."""
        self._errors.seek(0)
        return self._errors.read().decode()

    @property
    def client_config(self) -> dict[str, Any]:
        credentials = load_credentials(self.data_dir)
        return {
            "bootstrap_servers": self._address,
            "aws_access_key_id": credentials.access_key_id,
            "aws_secret_access_key": credentials.secret_access_key,
            "aws_region": credentials.region,
        }

    async def set_share(self, share: float) -> dict[str, Counter[str]]:
        """From now on so many calls fail; what was counted so far."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"share {share}\n".encode())
        counts = json.loads((await self._line("counts")).split(" ", 1)[1])
        return {name: Counter(faults) for name, faults in counts.items()}

    def resident_mb(self) -> float:
        """Memory of the process (Linux)."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    async def _line(self, word: str) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            line = (await self._process.stdout.readline()).decode().strip()
        assert line.startswith(word), f"{line!r}; {self.errors}"
        return line


@dataclass
class Load:
    """Producers and a group over one topic, and what they saw."""

    config: dict[str, Any]
    ledger: Ledger
    chance: random.Random
    pause_s: float  # of a producer between two records, on average
    sent: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    latencies_s: list[float] = field(default_factory=list)
    delivered: Counter[tuple[int, int]] = field(default_factory=Counter)  # (partition, offset), to the group
    refused: Counter[str] = field(default_factory=Counter)  # what members were told, by name
    members: dict[str, Consumer] = field(default_factory=dict)
    sending: asyncio.Event = field(default_factory=asyncio.Event)
    reading: asyncio.Event = field(default_factory=asyncio.Event)

    async def produce(self, name: str) -> None:
        """One idempotent producer, until `sending` is cleared and all its records are answered."""
        pending: set[asyncio.Task[None]] = set()
        async with Producer(**self.config, linger_ms=20, delivery_timeout_ms=300_000, client_id=name) as producer:
            while self.sending.is_set():
                if len(pending) >= OUTSTANDING:
                    await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                value = value_of(name, self.sent[name], self.chance.choice(SIZES))
                partition = self.chance.randrange(len(self.ledger.partitions))
                future = await producer.send(TOPIC, value, partition=partition)
                self.sent[name] += 1
                task = asyncio.create_task(self._note(future, value))
                pending.add(task)
                task.add_done_callback(pending.discard)
                await asyncio.sleep(self.chance.uniform(0, 2 * self.pause_s))
            await asyncio.gather(*pending)

    async def _note(self, future: Any, value: bytes) -> None:
        began = time.perf_counter()
        try:
            metadata = await future
        except KafkaError as error:
            self.failures.append(str(error))
        else:
            self.latencies_s.append(time.perf_counter() - began)
            self.ledger.acknowledge(metadata.partition, metadata.offset, value)

    async def consume(self, name: str) -> None:
        """One member of the group, until `reading` is cleared."""
        consumer = Consumer(
            **self.config,
            group_id="load",
            client_id=name,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=1_000,
            fetch_max_wait_ms=1_000,
        )
        self.members[name] = consumer
        consumer.subscribe([TOPIC])
        async with consumer:
            while self.reading.is_set():
                try:
                    polled = await consumer.poll(1_000)
                except KafkaError as error:
                    if not error.is_retryable:
                        raise
                    self.refused[error.code.name] += 1
                    continue
                for records in polled.values():
                    self.delivered.update((record.partition, record.offset) for record in records)

    async def wait_for_delivery(self, timeout_s: float) -> None:
        """Wait until the group has seen all that was sent. Raises AssertionError that says what is missing."""
        try:
            async with asyncio.timeout(timeout_s):
                while len(self.delivered) < sum(self.sent.values()):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            missing = Counter(partition for partition, _ in set(self.ledger.acknowledged) - set(self.delivered))
            owned = {name: sorted(p.partition for p in member.assignment()) for name, member in self.members.items()}
            raise AssertionError(f"missing {dict(missing)}; owned {owned}; told {dict(self.refused)}") from None


@dataclass
class Memory:
    """Samples of the service's memory, and whether they grow."""

    service: LoadedService
    samples_mb: list[float] = field(default_factory=list)

    async def watch(self, every_s: float = 0.5) -> None:
        while True:
            self.samples_mb.append(self.service.resident_mb())
            await asyncio.sleep(every_s)

    def growth_mb(self) -> float:
        """From the second third of the time to the last one: the first fills caches."""
        third = len(self.samples_mb) // 3
        return statistics.fmean(self.samples_mb[-third:]) - statistics.fmean(self.samples_mb[third : 2 * third])


def partitions_of(count: int) -> list[TopicPartition]:
    return [TopicPartition(TOPIC, number) for number in range(count)]
