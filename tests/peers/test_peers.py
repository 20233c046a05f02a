"""`make peers` only: every probe against the newest Apache Kafka and the Kafka port."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.peers.kafka_broker import NoBroker
from bench.peers.maven import NoJars
from tests.peers.__main__ import expected
from tests.peers.accepted import shown
from tests.peers.compare import Pair, load_probes, running

pytestmark = pytest.mark.peers
EXPECTED = expected()


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    try:
        with running() as started:
            yield started
    except (NoBroker, NoJars) as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", load_probes())
def test_only_accepted_differences(name: str, pair: Pair) -> None:
    assert shown(pair.compare(load_probes()[name]).differences) == EXPECTED.get(name, {})
