"""A failing check shows its values; engines over each backend, for the operations at their largest.

Slow: these over files and AWS. Memory counts what is beyond a limit with the same rules.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.adapters.aws import AwsStore
from odradek.adapters.embedded import open_embedded
from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.engine.engine import Engine
from odradek.functions.metering import Tally
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng

from tests.support.stores.aws import CREDENTIALS, create_tables, moto_server, open_store

pytest.register_assert_rewrite(
    "odradek.testing.contract_table_conditions",
    "odradek.testing.contract_table_writes",
    "odradek.testing.contract_table_limits",
    "odradek.testing.contract_table_reads",
    "odradek.testing.contract_tables",
    "odradek.testing.contract_object_store",
    "odradek.testing.contract_task_queue",
)


@pytest.fixture(scope="module")  # and no longer: moto's tables are the process's
def largest_on_aws() -> Iterator[tuple[AwsStore, Tally]]:
    """Tables of moto, or of the strict emulator, for the operations at their largest; and what they count."""
    meter = Tally()
    with pytest.MonkeyPatch.context() as patch, moto_server() as endpoint:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        store = open_store(endpoint, create_tables(endpoint), meter=meter)
        yield store, meter
        asyncio.run(store.aclose())


_SLOW = [pytest.param(store_name, marks=pytest.mark.slow) for store_name in ("embedded", "aws")]


@pytest.fixture(params=["memory", *_SLOW])
async def engine_of(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Callable[..., Engine]]:
    """Makes engines over a backend; in the end nothing that was sent was one too many."""
    clock = SystemClock()

    def maker(tables: Any, objects: Any) -> Callable[..., Engine]:
        def make(**settings: Any) -> Engine:
            return Engine(tables=tables, objects=objects, clock=clock, rng=SystemRng(), settings=Settings(**settings))

        return make

    meter = Tally()
    if request.param == "memory":
        yield maker(MemoryStore(meter), MemoryObjectStore(clock))
    elif request.param == "embedded":
        async with open_embedded(tmp_path, synchronous="NORMAL", meter=meter) as embedded:
            yield maker(embedded, embedded.objects)
    else:
        store, meter = request.getfixturevalue("largest_on_aws")
        rejected_before = meter.usage.rejected_requests
        yield maker(store, store.objects)
        assert meter.usage.rejected_requests == rejected_before
        return
    assert meter.usage.rejected_requests == 0
