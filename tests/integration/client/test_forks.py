"""Clients in a child process: whatever was created before a fork says so at once, and leaves the parent's alone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek import aio
from odradek.client.serializers import HttpRegistry, Schema
from odradek.local import ThreadedService

LIMIT_S = 20.0  # of a child; every call ends at once, but a machine may be busy

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def service() -> Iterator[ThreadedService]:
    with odradek.local(registry_port=0) as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("t", 1), odradek.NewTopic("shared", 1)])
        yield service


def in_child(work: Callable[[], Any]) -> str:
    """Run `work` in a forked child; return what it returned or raised, as text."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            outcome = f"returned {work()!r}"
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"
        os.write(writable, outcome.encode()[:2_000])
        os._exit(0)
    os.close(writable)
    until_s = time.monotonic() + LIMIT_S
    while not os.waitpid(pid, os.WNOHANG)[0]:
        if time.monotonic() > until_s:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            pytest.fail("the call hangs in the child")
        time.sleep(0.01)
    with os.fdopen(readable) as pipe:
        return pipe.read()


def refused(work: Callable[[], Any]) -> bool:
    return "create the client in the child, after the fork" in in_child(work)


def test_a_producer_sends_nothing_in_a_child_and_goes_on_in_the_parent(service: ThreadedService) -> None:
    with odradek.Producer(**service.client_config, linger_ms=60_000, batch_size=100_000) as producer:
        first = producer.send("t", b"buffered by the parent")
        assert refused(lambda: producer.send("t", b"child"))
        assert refused(lambda: producer.send("never seen", b"child"))
        assert refused(producer.flush)
        assert refused(first.result)
        assert refused(lambda: asyncio.run(_awaited(first)))
        assert refused(lambda: producer.partitions_for("never seen"))
        assert in_child(producer.close) == "returned None"
        assert in_child(lambda: producer.__exit__(None, None, None)) == "returned None"
        producer.send("t", b"parent")
        producer.flush()
        assert first.result().offset == 0
    with odradek.Consumer(**service.client_config) as consumer:
        assert consumer.end_offsets([odradek.TopicPartition("t", 0)]) == {odradek.TopicPartition("t", 0): 2}


async def _awaited(future: Any) -> None:
    await future


def test_a_transaction_of_the_parent_is_not_touched(service: ThreadedService) -> None:
    with odradek.Producer(**service.client_config, transactional_id="tx", linger_ms=60_000) as producer:
        producer.init_transactions()
        with producer.transaction():
            future = producer.send("t", b"1")
            assert refused(producer.commit_transaction)
            assert refused(producer.abort_transaction)
            assert refused(producer.begin_transaction)
        assert future.result().partition == 0


def test_consumers(service: ThreadedService) -> None:
    with odradek.Producer(**service.client_config) as producer:
        for number in range(3):
            producer.send("shared", b"%d" % number)
    with (
        odradek.Consumer(**service.client_config, group_id="g", auto_offset_reset="earliest") as consumer,
        odradek.ShareConsumer(**service.client_config, group_id="s") as shares,
    ):
        consumer.subscribe(["shared"])
        first = next(consumer)  # the others are held
        assert first.offset == 0
        assert refused(lambda: next(consumer))
        assert refused(lambda: consumer.poll(100))
        assert refused(lambda: consumer.poll_table(100))
        assert refused(consumer.commit)
        assert refused(consumer.commit_async)
        assert refused(consumer.wakeup)
        assert refused(lambda: consumer.seek(odradek.TopicPartition("shared", 0), 0))
        assert in_child(consumer.close) == "returned None"
        shares.subscribe(["shared"])
        shares.poll(10)
        assert refused(lambda: shares.poll(100))
        assert refused(shares.commit_sync)
        assert in_child(shares.close) == "returned None"
        assert [next(consumer).offset, next(consumer).offset] == [1, 2]


def test_other_clients(service: ThreadedService) -> None:
    registry = HttpRegistry(service.registry_url or "")
    with (
        odradek.Admin(**service.client_config) as admin,
        odradek.Table("rows", **service.client_config) as table,
    ):
        number = registry.register("s-value", Schema('"string"'))
        assert refused(admin.list_topics)
        assert refused(lambda: table.get("k"))
        assert in_child(admin.close) == "returned None"
        # A registry's client holds no connection: it may be inherited.
        assert in_child(lambda: registry.register("s-value", Schema('"string"'))) == f"returned {number}"
        assert in_child(lambda: registry.register("child-value", Schema('"int"'))) != f"returned {number}"
        assert "t" in admin.list_topics()


def test_a_new_client_works_in_a_child(service: ThreadedService) -> None:
    def work() -> int:
        with odradek.Producer(**service.client_config) as producer:
            return producer.send("t", b"own").result(10).partition

    assert in_child(work) == "returned 0"


def test_asynchronous_clients(service: ThreadedService) -> None:
    async def parent() -> None:
        async with (
            aio.Producer(**service.client_config) as producer,
            aio.Consumer(**service.client_config, group_id="a", auto_offset_reset="earliest") as consumer,
            aio.ShareConsumer(**service.client_config, group_id="as") as shares,
            aio.Admin(**service.client_config) as admin,
        ):
            await producer.send_and_wait("t", b"x")
            consumer.subscribe(["t"])
            shares.subscribe(["t"])
            calls: list[Callable[[], Any]] = [
                lambda: producer.send("t", b"child"),
                producer.flush,
                lambda: consumer.poll(100),
                consumer.commit,
                lambda: anext(consumer),
                lambda: shares.poll(100),
                admin.list_topics,
            ]
            for call in calls:
                assert refused(partial(_run, call))
            for close in (producer.close, consumer.close, shares.close, admin.close):
                assert in_child(partial(_run, close)) == "returned None"
            assert "t" in await admin.list_topics()

    asyncio.run(parent())


def _run(call: Callable[[], Any]) -> Any:
    """Run a coroutine on a new loop, as a child does whose parent's loop was running at the fork."""

    async def awaited() -> Any:
        return await call()

    asyncio._set_running_loop(None)
    return asyncio.new_event_loop().run_until_complete(awaited())


def test_the_end_of_a_child_waits_for_nothing_and_leaves_the_parents_connections(
    service: ThreadedService, tmp_path: Path
) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(f"""
        import os, sys, odradek
        config = {service.client_config!r}
        with (
            odradek.Producer(**config, linger_ms=60_000, delivery_timeout_ms=90_000) as producer,
            odradek.Admin(**config) as admin,
            odradek.Consumer(**config) as consumer,
        ):
            admin.list_topics()
            kept = [producer.send("t", b"%d" % number) for number in range(50)]
            consumer.assign([odradek.TopicPartition("t", 0)])
            consumer.poll(100)
            for how in ("return", "raise"):
                pid = os.fork()
                if pid == 0:
                    if how == "raise":
                        raise ValueError("of the child")
                    sys.exit(7)  # leaves the blocks, and ends as an interpreter does
                _, status = os.waitpid(pid, 0)
                print(os.waitstatus_to_exitcode(status))
                # The selector and the connections are still the parent's: nothing waits for a timeout.
                for _ in range(3):
                    admin.list_topics()
                    consumer.poll(100)
            producer.flush(20)
        print(len({{future.result().offset for future in kept}}))
        """)
    )
    config = ["-W", "ignore::DeprecationWarning"]
    ended = subprocess.run([sys.executable, *config, str(script)], capture_output=True, text=True, timeout=90)
    assert ended.stdout.split() == ["7", "1", "50"], ended.stderr
    assert [line for line in ended.stderr.splitlines() if "ignored" in line or "Unclosed" in line] == []


def test_multiprocessing(service: ThreadedService, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(f"""
        import multiprocessing, json, odradek
        producer = odradek.Producer(**{service.client_config!r})
        def work(number):
            try:
                producer.send("t", b"x").result()
            except odradek.KafkaError as error:
                return error.message
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(json.dumps(pool.map(work, range(4))))
        """)
    )
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    messages = json.loads(ended.stdout)
    assert len(messages) == 4
    assert all("after the fork" in message for message in messages)
