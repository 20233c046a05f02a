"""200 idempotent producers on one partition, throttled at 1,000 write units a second: tail and head stay bounded.

ODRADEK_TEST_STRICT_S says for how long (`make contract-strict ARGS="--seconds 600"`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator

import pytest
from odradek.adapters.aws import AwsStore
from odradek.adapters.memory import MemoryObjectStore
from odradek.engine.engine import Engine
from odradek.engine.partition.head import encode_head, head_key
from odradek.errors import ErrorCode
from odradek.format.item_size import item_size
from odradek.limits import SPILL_ENTRIES_MAX
from odradek.model.topic_partition import PartitionId
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng
from odradek.testing.throttling import Throttle, ThrottledTables

from tests.support.engine import batch, produce, read_all
from tests.support.stores.aws import CREDENTIALS, create_tables, moto_server, open_store

PRODUCERS = 200
ENGINES = 8  # as so many functions at work
SECONDS = int(os.environ.get("ODRADEK_TEST_STRICT_S", "60"))
RETRIED = {ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
HEAD_BYTES_BOUND = 96 * 1024  # far from an item's 400 KB


@pytest.fixture
def store() -> Iterator[AwsStore]:
    with pytest.MonkeyPatch.context() as patch, moto_server() as endpoint:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        store = open_store(endpoint, create_tables(endpoint))
        yield store
        asyncio.run(store.aclose())


@pytest.mark.timeout(SECONDS + 900)
async def test_tail_and_head_stay_bounded(store: AwsStore, capsys: pytest.CaptureFixture[str]) -> None:
    clock = SystemClock()
    throttle = Throttle(clock)
    tables, objects = ThrottledTables(store, throttle), MemoryObjectStore(clock)
    engines = [
        Engine(tables=tables, objects=objects, clock=clock, rng=SystemRng(), settings=Settings())  # type: ignore[arg-type]
        for _ in range(ENGINES)
    ]
    await engines[0].topics.create("t", 1)
    partition = PartitionId((await engines[0].topics.resolve("t")).topic_id, 0)
    until = time.monotonic() + SECONDS
    acknowledged: dict[int, tuple[int, int]] = {}
    retried = 0

    async def write(number: int) -> None:
        nonlocal retried
        sequence, attempt = 0, 0
        while time.monotonic() < until:
            records = batch([b"%d %d" % (number, sequence)], producer=(10**15 + number, 0, sequence))
            result = await produce(engines[(number + attempt) % ENGINES], "t", 0, records)
            attempt += 1
            if result.error is not ErrorCode.NONE:
                assert result.error in RETRIED, (result.error.name, result.message)
                retried += 1
                await asyncio.sleep(0.1)
                continue
            assert result.base_offset not in acknowledged, "two records were told the same offset"
            acknowledged[result.base_offset] = (number, sequence)
            sequence += 1

    tails, sizes, producers = [0], [0], [0]

    async def watch() -> None:
        while time.monotonic() < until:
            head = await engines[0].index.read_head(partition)
            assert head is not None
            tails.append(len(head.tail))
            producers.append(len(head.producers))
            sizes.append(item_size(*head_key(partition), encode_head(head)))
            await asyncio.sleep(0.25)

    await asyncio.gather(watch(), *(write(number) for number in range(PRODUCERS)))
    with capsys.disabled():
        print(
            f"\n{PRODUCERS} producers, {SECONDS} s: {len(acknowledged)} records acknowledged, "
            f"{retried} answers to retry, {throttle.refused} writes throttled, "
            f"{throttle.taken / SECONDS:.0f} units a second; "
            f"longest tail {max(tails)} entries, largest head {max(sizes)} bytes, {max(producers)} producers in it; "
            f"in the second half {max(tails[len(tails) // 2 :])} entries, {max(sizes[len(sizes) // 2 :])} bytes"
        )
    assert max(tails) <= 2 * SPILL_ENTRIES_MAX
    assert max(sizes) <= HEAD_BYTES_BOUND
    log = {record.offset: record.value for record in await read_all(engines[0], "t", 0)}
    assert all(log[offset] == b"%d %d" % record_id for offset, record_id in acknowledged.items()), (
        "what was acknowledged is in the log"
    )
    assert len(set(log.values())) == len(log), "no record is in it twice"
