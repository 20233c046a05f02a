"""The dispatcher as a function: which messages of a batch come again, and what is told."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from odradek.functions.environment import TRIGGER_DISPATCHER
from odradek.functions.invoked import WORK_MARGIN_MS, Instruments
from odradek.functions.metering import InvocationMeter
from odradek.functions.triggers import TriggerDispatcherHandler
from odradek.local.context import LocalContext
from odradek.testing.faults import Fault

from tests.support.engine import batch, produce
from tests.support.services.dispatched import Dispatched

FUNCTION = "arn:aws:lambda:eu-west-1:123456789012:function:orders"


class Function:
    """A function that rests when it is told to."""

    def __init__(self) -> None:
        self.calls = 0
        self.rests_s = 0.0

    async def invoke(self, function_arn: str, payload: bytes, timeout_s: float) -> bytes:
        self.calls += 1
        await asyncio.sleep(self.rests_s)
        return b""

    async def send_message(self, queue_url: str, body: str) -> None: ...

    async def publish(self, topic_arn: str, body: str) -> None: ...

    async def put_object(self, bucket: str, key: str, body: bytes) -> None: ...


class Invoked:
    """The handler, over a store with a trigger that has something to do."""

    def __init__(self) -> None:
        self.function, self.lines = Function(), list[str]()
        self.dispatched = Dispatched(lambda: self.function)
        meter = InvocationMeter()
        instruments = Instruments(clock=self.dispatched.clock, meter=meter, write_line=self.lines.append)
        self.handler = TriggerDispatcherHandler(self.dispatched.parts.dispatcher, instruments)

    async def start(self) -> Invoked:
        await self.dispatched.engine.topics.create("orders", 1)
        await self.dispatched.create(function=FUNCTION)
        await self.dispatched.work_off()
        await produce(self.dispatched.engine, "orders", 0, batch([b"a"]))
        return self

    async def invoke(self, *messages: str, seconds: float = 900) -> list[str]:
        clock = self.dispatched.clock
        context = LocalContext(
            function_name=TRIGGER_DISPATCHER,
            memory_limit_in_mb=512,
            aws_request_id="request",
            deadline_s=clock.monotonic() + seconds,
            monotonic=clock.monotonic,
        )
        event = {"Records": [{"messageId": f"m{i}", "body": body} for i, body in enumerate(messages)]}
        response = await self.handler.handle(event, context)
        return [failure["itemIdentifier"] for failure in response["batchItemFailures"]]

    def wake(self) -> str:
        message = self.dispatched.queue.take()
        assert message is not None
        return message

    def attention(self) -> list[dict[str, Any]]:
        return [line for line in map(json.loads, self.lines) if line.get("message") == "attention"]


async def test_messages_that_are_done_are_deleted() -> None:
    invoked = await Invoked().start()
    wake = invoked.wake()
    assert await invoked.invoke(wake, wake) == []
    assert invoked.function.calls == 1, "a doubled message finds nothing to do"
    assert invoked.attention() == []


async def test_a_message_that_says_nothing_comes_again_alone() -> None:
    invoked = await Invoked().start()
    assert await invoked.invoke("{", invoked.wake(), '{"version": 99}') == ["m0", "m2"]
    assert invoked.function.calls == 1
    [attention] = invoked.attention()
    assert attention["reason"] == "trigger-failures"
    assert "m2" in attention["failures"][1]
    assert "upgrade it" in attention["failures"][1]


async def test_a_message_comes_again_where_the_store_does_not_answer() -> None:
    invoked = await Invoked().start()
    log = invoked.dispatched.store.log
    log.script.update({("get", log.count("get") + number): Fault.UNAVAILABLE for number in range(50)})
    wake = invoked.wake()
    assert await invoked.invoke(wake) == ["m0"]
    log.script.clear()
    assert await invoked.invoke(wake) == []
    assert invoked.function.calls == 1


async def test_a_call_that_outlasts_the_function_leaves_its_message_and_no_commit() -> None:
    invoked = await Invoked().start()
    invoked.function.rests_s = 60
    wake = invoked.wake()
    assert await invoked.invoke(wake, seconds=WORK_MARGIN_MS / 1000 + 0.2) == ["m0"]
    assert "raise the function's time-out" in invoked.attention()[0]["failures"][0]
    assert (await invoked.dispatched.status()).lag == 1
    invoked.function.rests_s = 0
    invoked.dispatched.clock.advance(400)  # the lease of the one that was cut off
    assert await invoked.invoke(wake) == []
    assert (await invoked.dispatched.status()).lag == 0
