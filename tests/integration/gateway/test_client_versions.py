"""The oldest clients in Python that speak to Kafka 4, each installed into an environment of its own.

`make peers-clients` runs the clients of all languages, old and new.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.clients.matrix import CLIENTS, Client
from tests.peers.clients.run import run_client
from tests.peers.clients.services import Services, running

OLDEST = tuple(
    client for client in CLIENTS if client.label in ("confluent-kafka 2.0.2", "kafka-python 2.0.2", "aiokafka 0.8.1")
)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    with running(tmp_path_factory.mktemp("tls"), OLDEST) as services:
        yield services


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("client", OLDEST, ids=lambda client: client.label)
def test_the_oldest_release_does_every_task(client: Client, services: Services, tmp_path: Path) -> None:
    """Slow: an index of packages is asked, and each client does sixteen tasks."""
    result = run_client(client, services, folder=tmp_path)
    if result.missing:
        pytest.skip(result.missing)
    log = next(tmp_path.glob("*.log")).read_text()
    assert result.failures == {}, log[-3_000:]
