"""Run probes against two brokers and compare the answers."""

from __future__ import annotations

import concurrent.futures
import importlib
import itertools
import pkgutil
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.peers import probes
from tests.peers.answers import differences, normalised
from tests.peers.brokers import Addresses, advertised, apache_kafka, create_coordinators, kafka_port, kafka_schemas
from tests.peers.probe import PROBES, Peer, Probe, attempt
from tests.peers.schemas import Schemas

_THREADS = 4


def load_probes() -> dict[str, Probe]:
    """Import every module of tests/peers/probes; return the probes by name."""
    for module in pkgutil.iter_modules(probes.__path__):
        importlib.import_module(f"{probes.__name__}.{module.name}")
    return PROBES


@dataclass(frozen=True)
class Result:
    """Both normalised answers to a probe."""

    probe: Probe
    first: Any
    second: Any

    @property
    def differences(self) -> dict[str, tuple[Any, Any]]:
        return differences(self.first, self.second)


@dataclass
class Pair:
    """Two brokers side by side."""

    first: Addresses
    second: Addresses
    schemas: Schemas
    versions: Mapping[str, tuple[int, int]]
    asked: set[tuple[str, int]] = field(default_factory=set)  # APIs and versions
    _suffixes: Iterator[int] = field(default_factory=itertools.count)

    def compare(self, probe: Probe) -> Result:
        """Ask both."""
        suffix = f"p{next(self._suffixes):04d}x"
        return Result(probe, *(self._ask(broker, probe, suffix) for broker in (self.first, self.second)))

    def compare_all(self, chosen: Iterable[Probe], done: Callable[[Result], None]) -> list[Result]:
        """Compare several at once, then those that must run alone; `done` is called with each result."""
        chosen = list(chosen)
        results = []
        with concurrent.futures.ThreadPoolExecutor(_THREADS) as threads:
            for future in concurrent.futures.as_completed(
                threads.submit(self.compare, probe) for probe in chosen if not probe.is_alone
            ):
                results.append(future.result())
                done(results[-1])
        for probe in chosen:
            if probe.is_alone:
                results.append(self.compare(probe))
                done(results[-1])
        return sorted(results, key=lambda result: result.probe.name)

    def _ask(self, broker: Addresses, probe: Probe, suffix: str) -> Any:
        peer = Peer(broker.servers, broker.sasl_servers, self.schemas, self.versions, suffix, self.asked)
        try:
            answer = attempt(lambda: probe.question(peer))
        except Exception as error:  # a fault of the probe, or an answer that it did not expect: shown as the answer
            where = traceback.extract_tb(error.__traceback__)[-1]
            answer = f"{type(error).__name__} at {where.name}:{where.lineno}: {error}"
        finally:
            peer.close()
        return normalised(answer, suffix, (broker.servers, broker.sasl_servers))


@contextmanager
def running(against: str = "", version: str = "") -> Iterator[Pair]:
    """Start both brokers: Apache Kafka and the Kafka port, or two versions of Apache Kafka.

    Args:
        against: a version of Apache Kafka instead of the Kafka port.
        version: of the first Apache Kafka; the newest by default.

    Raises NoBroker or NoJars.
    """
    schemas = kafka_schemas(version)
    with ExitStack() as stack:
        first = stack.enter_context(apache_kafka(schemas, version))
        second = stack.enter_context(apache_kafka(schemas, against) if against else kafka_port(schemas))
        for broker in (first, second):
            create_coordinators(broker.servers, schemas)
        ours, others = (advertised(broker.servers, schemas) for broker in (second, first))
        yield Pair(first, second, schemas, common_versions(others, ours))


def common_versions(
    first: Mapping[str, tuple[int, int]], second: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """The versions of each API that both have; those of one where the other has none of it."""
    common = {**second, **first}
    for api in first.keys() & second.keys():
        low, high = max(first[api][0], second[api][0]), min(first[api][1], second[api][1])
        if low <= high:
            common[api] = low, high
    return common
