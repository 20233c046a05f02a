"""Stock Python producers on a store that is late, fails or is away: none lost, none doubled, order kept.

A few seconds each here; `make test-slow` asks for longer, and `make java` asks the same of Java's own clients.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients import numbered_producers as producers
from tests.support.clients.numbered_producers import Load
from tests.support.counted import at_least
from tests.support.services import unkind
from tests.support.services.slow_service import Unkindness
from tests.support.services.unkind import Trouble, Write

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


def write_together(tmp_path: Path, trouble: Trouble, **load: Any) -> Iterable[unkind.Findings]:
    """All clients at once, each to a topic of its own."""
    writers = {client: (write, Load(client, **load)) for client, write in CLIENTS.items()}
    return unkind.run_together(tmp_path, trouble, writers).values()


def test_a_few_late_writes_and_a_stall(tmp_path: Path) -> None:
    """Batches of one record used to end in a fatal error of librdkafka after either."""
    trouble = Trouble(Unkindness(late_every=20, late_ms=800), stopped_s=(1.5,), running_s=1.0)
    for findings in at_least(2, write_together(tmp_path, trouble, seconds=3, records_per_s=200, outstanding=50)):
        assert findings.is_exact
        assert findings.acknowledged == findings.sent


@pytest.mark.slow
@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble(tmp_path: Path, trouble: str) -> None:
    """Slow: leaders move, the service stalls, dies and its store fails several times in each run."""
    for findings in at_least(2, write_together(tmp_path, TROUBLES[trouble], seconds=SECONDS)):
        assert findings.is_exact
        assert findings.acknowledged == findings.sent


@pytest.mark.slow
def test_topics_recreated_under_their_producers(tmp_path: Path) -> None:
    """Slow: a client takes seconds to learn that its topic is gone, and that it is there again.

    What the client itself gives up while the topic does not exist is refused, and no loss.
    """
    for findings in at_least(2, write_together(tmp_path, unkind.RECREATED, seconds=SECONDS + 8, records_per_s=300)):
        assert findings.is_exact
        assert findings.found > 0


@pytest.mark.slow
def test_a_minute_of_batches_of_one_record_and_stalls(tmp_path: Path) -> None:
    """Slow: a minute, with a stall of 1.5 s every few seconds."""
    client = "confluent-one-record-batches"
    stalls = Trouble(stopped_s=(1.5,), running_s=3.0)
    findings = unkind.run(tmp_path, stalls, CLIENTS[client], Load("t", seconds=SECONDS * 5), client)
    assert findings.is_exact
    assert findings.acknowledged == findings.sent
