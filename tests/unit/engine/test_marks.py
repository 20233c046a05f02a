"""Marks of heads: one message for the first append after a trigger has caught up, and no request without one."""

from __future__ import annotations

from collections import Counter

import pytest
from odradek.adapters.memory.task_queue import MemoryTaskQueue
from odradek.engine.engine import Engine
from odradek.engine.marks import Wake, decode_wake, has_news
from odradek.errors import StoreUnavailable
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.settings import Settings
from odradek.testing.faults import Fault
from odradek.testing.seeded_rng import SeededRng

from tests.support.clients.transactional_producer import Transactor
from tests.support.engine import Store, batch, memory_store, produce


class Marked:
    """A topic of two partitions over a store whose requests are counted."""

    def __init__(self, per_head: int) -> None:
        self.store: Store = memory_store()
        self.queue = MemoryTaskQueue()
        self.engine = Engine(
            tables=self.store.tables,
            objects=self.store.objects,  # type: ignore[arg-type]
            clock=self.store.clock,
            rng=SeededRng(1),
            settings=Settings(default_partitions_per_head=per_head, head_bytes_max=20_000, spill_entries=120),
            wakes=self.queue,
        )

    async def start(self) -> Marked:
        topic = await self.engine.topics.create("t", 2)
        self.partition = PartitionId(topic.topic_id, 1)
        self.head_id = self.partition.head_id
        return self

    async def arm(self) -> None:
        image = await self.engine.index.read_image(self.head_id)
        assert image is not None
        armed = await self.engine.marks.arm(self.head_id, image)
        assert armed is not None
        assert armed.mark == image.appended_bytes

    async def requests_of_append(self) -> Counter[str]:
        for table in (self.store.log, self.store.groups, self.store.catalog):
            table.calls.clear()
        assert not (await produce(self.engine, "t", 1, batch([b"r"]))).error
        return Counter(self.store.log.calls + self.store.groups.calls + self.store.catalog.calls)

    def wakes(self) -> list[Wake]:
        messages, self.queue.messages = self.queue.messages, []
        return [decode_wake(message) for message in messages]

    async def mark(self) -> int | None:
        image = await self.engine.index.read_image(self.head_id)
        assert image is not None
        return image.mark


@pytest.fixture(params=[1, 2], ids=["own head", "shared head"])
async def marked(request: pytest.FixtureRequest) -> Marked:
    marked = await Marked(request.param).start()
    await produce(marked.engine, "t", 1, batch([b"warm"]))
    return marked


async def test_an_append_without_a_mark_makes_the_requests_that_it_always_made(marked: Marked) -> None:
    assert await marked.requests_of_append() == {"put": 1, "update": 1}
    assert marked.wakes() == []


async def test_the_append_that_sees_the_mark_sends_one_message_and_takes_it_away(marked: Marked) -> None:
    await marked.arm()
    assert await marked.requests_of_append() == {"put": 1, "update": 2}
    assert marked.wakes() == [Wake(marked.head_id)]
    assert await marked.mark() is None
    assert await marked.requests_of_append() == {"put": 1, "update": 1}
    assert marked.wakes() == []


async def test_a_head_that_got_a_record_since_it_was_seen_is_not_marked(marked: Marked) -> None:
    image_before = await marked.engine.index.read_image(marked.head_id)
    assert image_before is not None
    await produce(marked.engine, "t", 1, batch([b"between"]))
    now = await marked.engine.marks.arm(marked.head_id, image_before)
    assert now is not None
    assert now.mark is None
    assert now.appended_bytes > image_before.appended_bytes
    assert await marked.mark() is None


async def test_a_mark_stays_where_the_queue_does_not_take_the_message(
    marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    await marked.arm()

    async def refuse(*_: object, **__: object) -> list[str]:
        raise StoreUnavailable("no queue")

    with monkeypatch.context() as broken:
        broken.setattr(marked.queue, "send", refuse)
        await marked.requests_of_append()
    image = await marked.engine.index.read_image(marked.head_id)
    assert image is not None
    assert has_news(image)
    await marked.requests_of_append()  # the next append sends
    assert marked.wakes() == [Wake(marked.head_id)]


async def test_an_append_that_removes_late_removes_no_newer_mark(marked: Marked) -> None:
    await marked.arm()
    old = await marked.mark()
    assert old is not None
    await marked.requests_of_append()
    await marked.arm()
    marked.wakes()
    await marked.engine.marks.wake_marked(marked.head_id, old)
    assert await marked.mark() is not None


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LOST_REQUEST, Fault.UNAVAILABLE])
async def test_an_append_that_is_repeated_wakes_as_well(marked: Marked, fault: Fault) -> None:
    await marked.arm()
    marked.store.log.calls.clear()
    marked.store.log.script = {("update", 1): fault}
    assert not (await produce(marked.engine, "t", 1, batch([b"r"]))).error
    assert set(marked.wakes()) == {Wake(marked.head_id)}


@pytest.mark.parametrize("outcome", [None, Fault.LOST_ANSWER])
async def test_a_transaction_wakes(marked: Marked, outcome: Fault | None) -> None:
    transactor = await Transactor(marked.engine).init()
    await transactor.send("t", 1, b"in a transaction")
    await marked.arm()
    if outcome is not None:
        across = marked.store.tables.across
        across.script = {("transact", across.count("transact") + 1): outcome}
    await transactor.end(commit=True)
    assert Wake(marked.head_id) in marked.wakes()
    assert await marked.mark() is None


async def test_a_head_that_is_marked_while_a_transaction_commits_refuses_it_once(
    marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactor = await Transactor(marked.engine).init()
    await transactor.send("t", 1, b"in a transaction")
    original, armed = marked.engine.index.read_images, []

    async def read_images(*args: object, **named: object) -> object:
        images = await original(*args, **named)  # type: ignore[arg-type]
        if not armed:
            armed.append(True)
            await marked.arm()  # after the commit has read the head
        return images

    monkeypatch.setattr(marked.engine.index, "read_images", read_images)
    await transactor.end(commit=True)
    assert marked.wakes() == [Wake(marked.head_id)]


async def test_one_request_to_several_partitions_of_a_head_sends_one_message() -> None:
    marked = await Marked(2).start()
    await marked.arm()
    results = await marked.engine.produce([ProducePartition("t", partition, batch([b"r"])) for partition in range(2)])
    assert not any(result.error for result in results)
    assert marked.wakes() == [Wake(marked.head_id)]
