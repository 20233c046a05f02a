"""Records into topics through the SDK and the functions, with a progress bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from odradek import Admin, NewTopic, Producer
from odradek.cli.demo.dataset import TopicData

_STEP = 1_000  # records between updates of the bar
_SETTINGS: dict[str, Any] = {
    "compression_type": "zstd",
    "linger_ms": 50,
    "batch_size": 500_000,
    # The service may be killed and restarted: an idempotent producer continues, however long that takes.
    "delivery_timeout_ms": 600_000,
    "max_block_ms": 600_000,
}

Tick = Callable[[int], None]
"""Called with the number of records sent so far, over all topics."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """The amount of data sent."""

    records: int
    payload_bytes: int  # keys and values before compression
    seconds: float


def make_topics(config: Mapping[str, Any], topics: Sequence[TopicData], derived: Sequence[NewTopic]) -> list[TopicData]:
    """Create missing topics; delete and recreate a topic that holds another number of records.

    Args:
        derived: topics computed from `topics`, recreated when any of those is.

    Returns:
        The topics that are empty now. Raises KafkaError.
    """
    with Admin(**config) as admin:
        existing = set(admin.list_topics())
        empty = [topic for topic in topics if topic.name not in existing or _count(admin, topic.name) != topic.count]
        wanted = [NewTopic(topic.name, topic.partitions, configs=dict(topic.configs)) for topic in empty]
        wanted += [topic for topic in derived if empty or topic.name not in existing]
        stale = [topic.name for topic in wanted if topic.name in existing]
        if stale:
            admin.delete_topics(stale)
        if wanted:
            admin.create_topics(wanted)
        return empty


def _count(admin: Admin, topic: str) -> int:
    partitions = admin.describe_topics([topic])[topic].partitions
    latest = admin.list_offsets(dict.fromkeys(partitions, "latest"))
    earliest = admin.list_offsets(dict.fromkeys(partitions, "earliest"))
    return sum(latest[tp].offset - earliest[tp].offset for tp in partitions)


def stream(
    config: Mapping[str, Any], topics: Sequence[TopicData], console: Console, tick: Tick | None = None
) -> Streamed:
    """Send everything and wait until all of it is acknowledged. Raises KafkaError."""
    started = time.monotonic()
    sent = payload_bytes = 0
    columns = (
        TextColumn("  {task.description:9}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    with Progress(*columns, console=console) as progress, Producer(**config, **_SETTINGS) as producer:
        for topic in topics:
            task = progress.add_task(topic.name, total=topic.count, rate="")
            topic_started, topic_bytes, done = time.monotonic(), 0, 0
            for key, value, timestamp_ms in topic.rows():
                producer.send(topic.name, value, key=key, timestamp_ms=timestamp_ms)
                topic_bytes += len(value) + (len(key) if key else 0)
                done += 1
                if done % _STEP == 0:
                    rate = _rate(done, topic_bytes, time.monotonic() - topic_started)
                    progress.update(task, completed=done, rate=rate)
                    if tick is not None:
                        tick(sent + done)
            producer.flush()
            rate = _rate(done, topic_bytes, time.monotonic() - topic_started)
            progress.update(task, completed=done, rate=rate)
            sent, payload_bytes = sent + done, payload_bytes + topic_bytes
    return Streamed(sent, payload_bytes, time.monotonic() - started)


def _rate(records: int, payload_bytes: int, seconds: float) -> str:
    seconds = max(seconds, 1e-9)
    return f"{records / seconds:9,.0f} records/s {payload_bytes / seconds / 1e6:6.1f} MB/s"
