"""Many engines in many threads append to one partition through DynamoDB and S3 as moto plays them.

Requests are counted where botocore sends them, not by our meter: what AWS would bill for an append is one upload a
request and one UpdateItem a partition, and nothing is read.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from odradek.adapters.aws import AwsStore
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.model.log import ProducePartition
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng

from tests.support.engine import batch, produce, read_all
from tests.support.examples import some
from tests.support.stores.aws import CREDENTIALS, create_tables, moto_server, open_store

T = TypeVar("T")

WRITERS = 16
STORES = 4  # that the writers' engines share: making clients takes longer than a race
APPENDS = 5  # of each writer
ITEM, OBJECT = 100, 20_000  # record sizes below and above item_bytes_max
# Nothing is read again because it is old, however slow the machine; and, for counting, no head spills.
SETTINGS = {"catalog_cache_ms": 3_600_000, "leader_cache_ms": 3_600_000}
ROOMY = {"head_bytes_max": 100_000}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, moto_server() as endpoint:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        create_tables(endpoint)
        yield endpoint


class Requests:
    """Every request that the stores' clients send, by operation."""

    def __init__(self, stores: list[AwsStore]) -> None:
        self._lock = threading.Lock()
        self.sent: Counter[str] = Counter()
        for client in [client for store in stores for client in (store._dynamodb, store._s3)]:
            client.meta.events.register("before-send", self._count)

    def _count(self, event_name: str, **_: Any) -> None:
        with self._lock:
            self.sent[event_name.rpartition(".")[2]] += 1

    def take(self) -> Counter[str]:
        """Return the requests since the last call."""
        with self._lock:
            sent, self.sent = self.sent, Counter()
        return sent


@pytest.fixture(scope="module")
def stores(endpoint: str) -> Iterator[list[AwsStore]]:
    """They belong to no event loop."""
    stores = [open_store(endpoint) for _ in range(STORES)]
    yield stores
    for store in stores:
        asyncio.run(store.aclose())


@pytest.fixture(scope="module")
def requests(stores: list[AwsStore]) -> Requests:
    return Requests(stores)


def engine_over(store: AwsStore, **settings: Any) -> Engine:
    return Engine(
        tables=store,
        objects=store.objects,
        clock=SystemClock(),
        rng=SystemRng(),
        settings=Settings(**{**SETTINGS, **settings}),
    )


async def warm(engine: Engine, topic: str, partitions: int) -> None:
    """Make the topic and read its row, so that what follows is the appends alone."""
    await engine.topics.create(topic, partitions)
    await engine.topics.resolve(topic)


# --- what an append costs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("producer", [None, 7], ids=["plain", "idempotent"])
@pytest.mark.parametrize(
    ("size", "upload"), [(ITEM, "PutItem"), (OBJECT, "PutObject")], ids=["as an item", "as an object"]
)
@pytest.mark.parametrize(("partitions", "per_head"), [(1, 1), (3, 1), (3, 32), (3, 2)])
async def test_an_append_is_one_upload_and_one_update_a_head(
    stores: list[AwsStore],
    requests: Requests,
    size: int,
    upload: str,
    partitions: int,
    per_head: int,
    producer: int | None,
) -> None:
    topic = f"counted-{size}-{partitions}-{per_head}-{producer}"
    engine = engine_over(stores[0], **ROOMY, default_partitions_per_head=per_head)
    await warm(engine, topic, partitions)
    for count in range(4):
        requests.take()
        records = batch([b"x" * size], producer=(-1, -1, -1) if producer is None else (producer, 0, count))
        results = await engine.produce([ProducePartition(topic, p, records) for p in range(partitions)])
        assert [(result.error, result.base_offset) for result in results] == [(ErrorCode.NONE, count)] * partitions
        assert requests.take() == {upload: 1, "UpdateItem": -(-partitions // per_head)}


async def test_a_duplicate_costs_an_upload_and_one_refused_update(stores: list[AwsStore], requests: Requests) -> None:
    engine = engine_over(stores[0], **ROOMY)
    await warm(engine, "duplicates", 1)
    for count in range(3):
        requests.take()
        result = await produce(engine, "duplicates", 0, batch([b"x"], producer=(5, 0, 0)))
        assert (result.error, result.base_offset) == (ErrorCode.NONE, 0)
        assert requests.take() == {"PutItem": 1, "UpdateItem": 1}, f"attempt {count}: the refusal shows the head"


async def test_a_fetch_at_the_head_of_a_quiet_log_is_one_read(stores: list[AwsStore], requests: Requests) -> None:
    engine = engine_over(stores[0], **ROOMY)
    await warm(engine, "quiet", 1)
    await produce(engine, "quiet", 0, batch([b"x"]))
    requests.take()
    assert await read_all(engine, "quiet", 0, offset=1) == []
    assert requests.take() == {"GetItem": 1}


# --- races --------------------------------------------------------------------------------------------------------


def in_threads(work: Callable[[int], Coroutine[Any, Any, T]], count: int) -> list[T]:
    """Run the coroutines at once, each on a loop of its own in a thread of its own; raises the first error."""
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            results[number] = asyncio.run(work(number))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(count)]


def race(
    stores: list[AwsStore],
    requests: Requests,
    topic: str,
    size: int,
    idempotent: bool,
    partitions: int = 1,
    **settings: Any,
) -> Counter[str]:
    """Sixteen writers append to one partition of the topic's; what all of them sent.

    Checks the log against what they were told.
    """
    engines = [engine_over(stores[writer % STORES], **settings) for writer in range(WRITERS)]
    ready = threading.Barrier(WRITERS, action=requests.take)

    async def write(writer: int) -> dict[int, bytes]:
        acknowledged: dict[int, bytes] = {}
        engine = engines[writer]
        await engine.topics.resolve(topic)
        await asyncio.to_thread(ready.wait)
        for count in range(APPENDS):
            value = b"%d %d " % (writer, count) + b"x" * size
            producer = (1_000 + writer, 0, count) if idempotent else (-1, -1, -1)
            result = await produce(engine, topic, 0, batch([value], producer=producer))
            assert result.error is ErrorCode.NONE, (result.error.name, result.message)
            assert result.base_offset not in acknowledged
            acknowledged[result.base_offset] = value
        return acknowledged

    asyncio.run(engine_over(stores[0]).topics.create(topic, partitions))
    outcomes = in_threads(write, WRITERS)
    sent = requests.take()
    records = asyncio.run(read_all(engine_over(stores[0]), topic, 0))
    acknowledged: dict[int, bytes] = {}
    for outcome in outcomes:
        assert not acknowledged.keys() & outcome.keys(), "two writers were told the same offset"
        acknowledged |= outcome
    log = {record.offset: record.value for record in records}
    assert len(log) == len(records) == WRITERS * APPENDS, "no record is lost or doubled"
    assert log == acknowledged
    assert sorted(log) == list(range(WRITERS * APPENDS)), "offsets are dense"
    return sent


@pytest.mark.parametrize("size", some([OBJECT, ITEM]))
def test_racing_writers_never_make_each_other_retry(stores: list[AwsStore], requests: Requests, size: int) -> None:
    """Without spills: one upload and one update each, however many write at once."""
    sent = race(stores, requests, f"race-{size}", size, idempotent=False, **ROOMY)
    upload = "PutItem" if size == ITEM else "PutObject"
    assert sent == {upload: WRITERS * APPENDS, "UpdateItem": WRITERS * APPENDS}


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 3], ids=["own head", "shared head"])
def test_racing_producers_spill_each_others_entries_and_lose_nothing(
    stores: list[AwsStore], requests: Requests, partitions: int
) -> None:
    """Sixteen idempotent producers over a head that holds two: most appends meet a spill of another writer.

    Slow: so they are repeated many times, and moto takes one call at a time.
    """
    small = {"head_bytes_max": 600, "spill_entries": 2, "producers_in_head_max": 2, "append_attempts_max": 200}
    small |= {"paged_appends": 3, "producers_bytes_max": 40}
    sent = race(stores, requests, f"race-spill-{partitions}", ITEM, idempotent=True, partitions=partitions, **small)
    assert sent["PutItem"] > WRITERS * APPENDS, "index rows have been written"
    assert sent["UpdateItem"] > WRITERS * APPENDS, "heads have been cut"
