"""The goals that bench/kafka_port.py sets beside its figures."""

from __future__ import annotations

from typing import Any

from bench.kafka_port import OURS_IS, SYNCED_IS, THEIRS_IS, UNSYNCED_IS, goals


def row(server: str, client: str, step: str, rate: float, size: int = 1024) -> dict[str, Any]:
    used = {"client_cpu_s_per_million": 10.0, "server_cpu_s_per_million": 5.0}
    return {"server": server, "client": client, "what": step, "size": size, "records_s": rate,
            "mb_s": rate * size / 1e6, **used}  # fmt: skip


def test_what_is_measured_on_both_sides_has_a_goal() -> None:
    rows = [
        row(OURS_IS, "confluent-kafka", "produce", 30_000),  # producers are compared where they are promised the same
        row(UNSYNCED_IS, "confluent-kafka", "produce", 50_000),
        row(THEIRS_IS, "confluent-kafka", "produce", 60_000),
        row(SYNCED_IS, "confluent-kafka", "produce", 25_000),
        row(OURS_IS, "confluent-kafka", "consume", 50_000),  # without a peer
        row(OURS_IS, "sdk records", "consume", 90_000),
        row(OURS_IS, "aiokafka", "consume", 1_000_000),  # the peer's client on the peer's server counts
        row(THEIRS_IS, "aiokafka", "consume", 40_000),
        row(OURS_IS, "sdk tables", "produce", 200_000),
    ]
    assert list(goals(rows)) == [
        ("confluent-kafka, produce, 1024 B", 60_000, 50_000, "client 0.50, server 0.25 cores"),
        ("confluent-kafka, produce, synced, 1024 B", 25_000, 30_000, "client 0.30, server 0.15 cores"),
        ("SDK records, consume, 1024 B: 2 aiokafka", 80_000, 90_000, "client 0.90, server 0.45 cores"),
        ("SDK tables, produce, 1024 B, MB/s", 100, 204.8, "client 2.00, server 1.00 cores"),
    ]
