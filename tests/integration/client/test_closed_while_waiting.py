"""A client that is closed by another thread or task, and consumers that are woken: the call that waits ends."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import odradek
import pytest
from odradek import KafkaError, TopicPartition, aio
from odradek.errors import ErrorCode
from odradek.local import ThreadedService

T0 = TopicPartition("t", 0)
FOREVER_MS = 3_600_000
LIMIT_S = 3.0

Make = Callable[[ThreadedService], Any]


@pytest.fixture(scope="module")
def service() -> Iterator[ThreadedService]:
    with odradek.local() as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", 1)])
        yield service


def assigned(service: ThreadedService) -> odradek.Consumer:
    consumer = odradek.Consumer(**service.client_config)
    consumer.assign([T0])
    return consumer


def member(service: ThreadedService) -> odradek.Consumer:
    consumer = odradek.Consumer(**service.client_config, group_id="g")
    consumer.subscribe(["t"])
    return consumer


def share_member(service: ThreadedService) -> odradek.ShareConsumer:
    consumer = odradek.ShareConsumer(**service.client_config, group_id="s")
    consumer.subscribe(["t"])
    return consumer


def waiting(call: Callable[[], Any], end: Callable[[], None]) -> BaseException:
    """Run `call` in a thread, then `end` here, once the call waits; return the exception of the call."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(0.5)
    assert thread.is_alive(), raised
    end()
    thread.join(LIMIT_S)
    assert not thread.is_alive(), "the call still waits"
    (error,) = raised
    return error


@pytest.mark.parametrize(
    ("make", "call"),
    [
        *((make, call) for make in (assigned, member) for call in ("poll", "poll_table", "__next__")),
        *((share_member, call) for call in ("poll", "__next__")),
    ],
)
def test_close_ends_a_poll_of_another_thread(service: ThreadedService, make: Make, call: str) -> None:
    consumer = make(service)
    method = getattr(consumer, call)
    error = waiting(method if call == "__next__" else lambda: method(FOREVER_MS), consumer.close)
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.INVALID_REQUEST
    assert "closed: create a new one" in error.message
    with pytest.raises(KafkaError, match="closed"):
        consumer.poll(0)


def test_close_ends_other_calls_that_wait() -> None:
    """A call that is repeated because the service is away."""
    with odradek.local() as service:
        admin = odradek.Admin(**service.client_config, default_api_timeout_ms=FOREVER_MS)
    error = waiting(admin.list_topics, admin.close)
    assert isinstance(error, KafkaError)
    assert "the client is closed" in error.message


def test_close_does_not_commit_what_a_poll_was_about_to_return(service: ThreadedService) -> None:
    consumer = odradek.Consumer(**service.client_config, group_id="c", auto_offset_reset="latest")
    consumer.subscribe(["t"])
    waiting(lambda: consumer.poll(FOREVER_MS), consumer.close)
    with odradek.Consumer(**service.client_config, group_id="c") as again:
        position = again.committed([T0])[T0]
        assert position is None or position.offset == again.end_offsets([T0])[T0]


def test_close_by_two_threads(service: ThreadedService) -> None:
    consumer = member(service)
    consumer.poll(100)

    def close_three_times() -> None:
        for thread in [_started(consumer.close) for _ in range(3)]:
            thread.join()

    error = waiting(lambda: consumer.poll(FOREVER_MS), close_three_times)
    assert isinstance(error, KafkaError)


def _started(target: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=target)
    thread.start()
    return thread


@pytest.mark.parametrize("make", [assigned, member, share_member])
def test_wakeup_ends_the_poll_that_waits_or_the_next_one(service: ThreadedService, make: Make) -> None:
    with make(service) as consumer:
        error = waiting(lambda: consumer.poll(FOREVER_MS), consumer.wakeup)
        assert isinstance(error, KafkaError)
        assert isinstance(error, KafkaError)
        assert consumer.poll(10) == {}
        consumer.wakeup()
        consumer.wakeup()
        with pytest.raises(KafkaError):
            consumer.poll(FOREVER_MS)
        assert consumer.poll(10) == {}
    consumer.wakeup()  # of a closed client: nothing


def test_wakeup_ends_an_iteration_before_its_next_record(service: ThreadedService) -> None:
    with odradek.Producer(**service.client_config) as producer:
        for _ in range(10):
            producer.send("t", b"x")
    with odradek.Consumer(**service.client_config, auto_offset_reset="earliest") as consumer:
        consumer.assign([T0])
        first = next(consumer)
        consumer.wakeup()
        consumer.position(T0)  # the loop has run it
        with pytest.raises(KafkaError):
            next(consumer)
        assert next(consumer).offset == first.offset + 1  # nothing was lost


def test_wakeup_by_a_signal_handler(service: ThreadedService) -> None:
    with assigned(service) as consumer:
        before = signal.signal(signal.SIGALRM, lambda *_: consumer.wakeup())
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(KafkaError):
                consumer.poll(FOREVER_MS)
        finally:
            signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("is_share", [False, True])
async def test_tasks(service: ThreadedService, is_share: bool) -> None:
    make: Any = aio.ShareConsumer if is_share else aio.Consumer
    consumer = await make(**service.client_config, group_id=f"aio{is_share}").start()
    consumer.subscribe(["t"])
    task = asyncio.ensure_future(consumer.poll(FOREVER_MS))
    await asyncio.sleep(0.3)
    consumer.wakeup()
    with pytest.raises(KafkaError):
        await task
    await consumer.poll(10)
    task = asyncio.ensure_future(consumer.poll(FOREVER_MS))
    await asyncio.sleep(0.3)
    await consumer.close()
    with pytest.raises(KafkaError, match="closed"):
        await task
