"""Stock Python producers on a store that is late, fails or is away: none lost, none doubled, order kept.

A few seconds each here; `make test-slow` asks for longer, and `make java` asks the same of Java's own clients.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from tests.support import numbered_producers as producers
from tests.support import unkind
from tests.support.numbered_producers import Load
from tests.support.slow_service import Unkindness
from tests.support.unkind import Trouble, Write

SECONDS = float(os.environ.get("ODRADEK_SLOW_STORES_S", "12"))  # of each slow case; the minute grows with it

CLIENTS: dict[str, Write] = {
    "confluent": partial(producers.confluent, linger_ms=5, batch_num_messages=20),
    "confluent-one-record-batches": partial(producers.confluent, linger_ms=0, batch_num_messages=1),
    "aiokafka": partial(producers.aiokafka, max_batch_size=2_000),
    "kafka-python": partial(producers.kafka_python, batch_size=2_000),
}
TROUBLES = {
    "late": unkind.LATE,
    "very-late": unkind.VERY_LATE,
    "failing": unkind.FAILING,
    "stalled": unkind.STALLED,
    "moving": unkind.MOVING,
    "crashing": unkind.CRASHING,
    "killed": unkind.KILLED,
    "everything": unkind.EVERYTHING,
}


def write_through(tmp_path: Path, client: str, trouble: Trouble, load: Load, name: str = "") -> unkind.Findings:
    return unkind.run(tmp_path, trouble, CLIENTS[client], load, f"{client} {name}")


def test_a_few_late_writes_and_a_stall(tmp_path: Path) -> None:
    """All clients at once. Batches of one record used to end in a fatal error of librdkafka after either."""
    trouble = Trouble(Unkindness(late_every=20, late_ms=800), stopped_s=(1.5,), running_s=1.0)
    writers = {
        client: (write, Load(client, seconds=3, records_per_s=200, outstanding=50)) for client, write in CLIENTS.items()
    }
    for findings in unkind.run_together(tmp_path, trouble, writers).values():
        assert findings.is_exact
        assert findings.acknowledged == findings.sent


@pytest.mark.slow
@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_in_every_trouble(tmp_path: Path, client: str, trouble: str) -> None:
    """Slow: leaders move, the service stalls and the store fails several times in each run."""
    findings = write_through(tmp_path, client, TROUBLES[trouble], Load("t", seconds=SECONDS), trouble)
    assert findings.is_exact
    assert findings.acknowledged == findings.sent


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_a_topic_recreated_under_its_producer(tmp_path: Path, client: str) -> None:
    """Slow: a client takes seconds to learn that its topic is gone, and that it is there again.

    What the client itself gives up while the topic does not exist is refused, and no loss.
    """
    findings = write_through(
        tmp_path, client, unkind.RECREATED, Load("t", seconds=SECONDS, records_per_s=500), "recreated"
    )
    assert findings.is_exact
    assert findings.found > 0


@pytest.mark.slow
def test_a_minute_of_batches_of_one_record_and_stalls(tmp_path: Path) -> None:
    """Slow: a minute, with a stall of 1.5 s every few seconds."""
    stalls = Trouble(stopped_s=(1.5,), running_s=3.0)
    findings = write_through(
        tmp_path, "confluent-one-record-batches", stalls, Load("t", seconds=SECONDS * 5), "a minute of stalls"
    )
    assert findings.is_exact
    assert findings.acknowledged == findings.sent
