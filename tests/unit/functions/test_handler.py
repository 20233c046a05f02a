"""A function over the real dispatcher and engine on memory adapters: what it answers to good and to bad events."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.dispatcher import Dispatcher, RequestContext
from odradek.engine.engine import Engine
from odradek.functions.discovery import Discovery
from odradek.functions.handler import FunctionHandler
from odradek.functions.invoked import Instruments
from odradek.functions.metering import InvocationMeter
from odradek.limits import FUNCTION_BINARY_BYTES_MAX, FUNCTION_PAYLOAD_BYTES_MAX
from odradek.model.log import Buffer
from odradek.protocol.api import ApiKey, FunctionName
from odradek.testing import ManualClock, SeededRng

from tests.support.dispatching import dispatcher
from tests.support.engine import batch, memory_store
from tests.support.services.function_calls import FakeContext, body_of, decode, frame, function_event, refusal_of

ADMIN = FunctionName.ADMIN
PRODUCE = FunctionName.PRODUCE
CREATE = frame(
    ApiKey.CREATE_TOPICS,
    7,
    {"topics": [{"name": "t", "num_partitions": 2, "replication_factor": 1}], "timeout": 1000, "validate_only": False},
)


class FakeDispatcher:
    """Answers what it is told to."""

    def __init__(self, answer_with: Callable[[], Awaitable[list[Buffer] | None]]) -> None:
        self._answer = answer_with

    async def dispatch(self, frame: Buffer, context: RequestContext) -> list[Buffer] | None:
        return await self._answer()


def handler(name: FunctionName, answers: Any = None, **options: Any) -> tuple[FunctionHandler, list[dict[str, Any]]]:
    """A function and the log lines that it writes."""
    lines: list[dict[str, Any]] = []
    instruments = Instruments(
        clock=options.pop("clock", None) or ManualClock(),
        meter=options.pop("meter", None) or InvocationMeter(),
        write_line=lambda line: lines.append(json.loads(line)),
        detailed_metrics=options.pop("detailed_metrics", False),
    )
    made = FunctionHandler(name, answers or dispatcher(memory_store().engine()), instruments, **options)
    return made, lines


def produce_frame(records: bytes, *, acks: int = -1, topic: str = "t") -> bytes:
    return frame(
        ApiKey.PRODUCE,
        9,
        {
            "acks": acks,
            "timeout": 1000,
            "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": records}]}],
        },
    )


def test_a_frame_comes_back_as_a_frame() -> None:
    admin, lines = handler(ADMIN)
    response = admin(function_event(CREATE), FakeContext())
    assert response["statusCode"] == 200
    assert response["headers"] == {"content-type": "application/octet-stream"}
    assert response["isBase64Encoded"] is True
    [topic] = decode(body_of(response), ApiKey.CREATE_TOPICS, 7).topics
    assert (topic.name, topic.num_partitions, int(topic.error_code)) == ("t", 2, 0)
    [line] = lines
    assert line["api"] == "CREATE_TOPICS"
    assert line["client_id"] == "tests"
    assert line["principal"] == "User:arn:aws:iam::000000000000:user/local"
    assert line["bytes_in"] == len(CREATE)
    assert line["bytes_out"] == len(body_of(response))
    assert line["cold_start"] is True


def test_warm_invocations_share_one_loop() -> None:
    loops = set()

    async def remember() -> list[Buffer] | None:
        loops.add(id(asyncio.get_running_loop()))
        return [b"x"]

    produce, lines = handler(PRODUCE, FakeDispatcher(remember))
    for _ in range(3):
        assert produce(function_event(b"frame"), FakeContext())["statusCode"] == 200
    assert len(loops) == 1
    assert ["cold_start" in line for line in lines] == [True, False, False]


async def test_the_async_core_runs_on_the_callers_loop() -> None:
    loop = asyncio.get_running_loop()

    async def same_loop() -> list[Buffer] | None:
        return [str(asyncio.get_running_loop() is loop).encode()]

    produce, _ = handler(PRODUCE, FakeDispatcher(same_loop))
    assert body_of(await produce.handle(function_event(b"frame"), FakeContext())) == b"True"


def test_acks_0_is_an_empty_200() -> None:
    store = memory_store()
    admin, _ = handler(ADMIN, dispatcher(store.engine()))
    admin(function_event(CREATE), FakeContext())
    produce, _ = handler(PRODUCE, dispatcher(store.engine()))
    response = produce(function_event(produce_frame(batch([b"v"]), acks=0)), FakeContext())
    assert (response["statusCode"], body_of(response)) == (200, b"")
    response = produce(function_event(produce_frame(batch([b"v"]))), FakeContext())
    [topic] = decode(body_of(response), ApiKey.PRODUCE, 9).responses
    assert topic.partition_responses[0].base_offset == 1  # the first was not lost


def test_discovery_names_the_called_host_as_the_coordinator() -> None:
    discovery = Discovery("c1", "eu-west-1", {PRODUCE: "https://p/", FunctionName.FETCH: "https://f/"})
    coordinator, _ = handler(FunctionName.COORDINATOR, discovery=discovery)
    response = coordinator(function_event(method="GET", path="/.well-known/odradek"), FakeContext())
    assert response["statusCode"] == 200
    assert json.loads(response["body"]) == {
        "cluster_id": "c1",
        "region": "eu-west-1",
        "functions": {
            "produce": "https://p/",
            "fetch": "https://f/",
            "coordinator": "https://abc.lambda-url.eu-west-1.on.aws/",
        },
    }


def refused(
    event: Any, *, name: FunctionName = PRODUCE, answers: Any = None, remaining_ms: int = 30_000
) -> tuple[int, str]:
    function, lines = handler(name, answers)
    response = function(event, FakeContext(remaining_ms))
    assert lines[-1]["status"] == response["statusCode"]
    return refusal_of(response)


@pytest.mark.parametrize(
    "event", [{}, {"requestContext": 1}, {"requestContext": {}}, [], "text", None, {"Records": []}]
)
def test_refuses_what_is_no_function_url_event(event: Any) -> None:
    assert refused(event) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH"])
def test_refuses_other_methods(method: str) -> None:
    assert refused(function_event(b"x", method=method)) == (405, "INVALID_REQUEST")


def test_refuses_get_elsewhere_and_on_functions_that_do_not_know() -> None:
    assert refused(function_event(method="GET", path="/")) == (404, "INVALID_REQUEST")
    assert refused(function_event(method="GET", path="/.well-known/odradek")) == (404, "INVALID_REQUEST")


def test_refuses_post_to_another_path() -> None:
    assert refused(function_event(CREATE, path="/topics"), name=ADMIN) == (404, "INVALID_REQUEST")


def test_refuses_an_empty_or_textual_body() -> None:
    assert refused(function_event(b"")) == (400, "INVALID_REQUEST")
    assert refused(function_event(b'{"a": 1}', content_type="application/json")) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("body", ["###", "YQ=", "ÄÖ", "YWJj\n", 7])
def test_refuses_a_body_that_is_not_base64(body: Any) -> None:
    event = function_event(b"frame")
    event["body"] = body
    assert refused(event) == (400, "INVALID_REQUEST")


def test_refuses_a_body_over_the_limit() -> None:
    event = function_event(b"frame")
    event["body"] = base64.b64encode(bytes(FUNCTION_BINARY_BYTES_MAX + 3)).decode()
    assert refused(event) == (413, "MESSAGE_TOO_LARGE")


@pytest.mark.parametrize("body", [b"\x00", b"\xff" * 40, b"\x00\x00\x00\x09\x00\x00\x00\x01\xff\xfe", CREATE[:-3]])
def test_refuses_what_is_no_frame(body: bytes) -> None:
    assert refused(function_event(body), name=ADMIN)[0] in {400, 404, 421}


def test_refuses_the_api_of_another_function() -> None:
    status, error = refused(function_event(CREATE), name=PRODUCE)
    assert (status, error) == (421, "INVALID_REQUEST")


def test_an_unexpected_exception_is_a_500_that_names_the_request_and_hides_the_cause() -> None:
    async def fail() -> list[Buffer] | None:
        raise ZeroDivisionError("secret")

    produce, lines = handler(PRODUCE, FakeDispatcher(fail))
    response = produce(function_event(b"frame"), FakeContext())
    assert refusal_of(response) == (500, "UNKNOWN_SERVER_ERROR")
    assert "request-1" in response["body"]
    assert "secret" not in response["body"]
    assert "ZeroDivisionError: secret" in lines[0]["stack"]
    assert (lines[1]["level"], lines[1]["faults"], lines[1]["request_id"]) == ("ERROR", 1, "request-1")
    assert produce(function_event(b"frame"), FakeContext())["statusCode"] == 500  # and goes on serving


def test_a_response_that_no_function_can_return_is_an_error_that_says_so() -> None:
    async def huge() -> list[Buffer] | None:
        return [bytes(FUNCTION_PAYLOAD_BYTES_MAX)]

    assert refused(function_event(b"frame"), answers=FakeDispatcher(huge)) == (413, "MESSAGE_TOO_LARGE")


def test_the_largest_response_fits_lambdas_payload() -> None:
    async def full() -> list[Buffer] | None:
        return [bytes(FUNCTION_BINARY_BYTES_MAX)]

    produce, _ = handler(PRODUCE, FakeDispatcher(full))
    response = produce(function_event(b"frame"), FakeContext())
    assert response["statusCode"] == 200
    assert len(json.dumps(response)) <= FUNCTION_PAYLOAD_BYTES_MAX


def test_out_of_time_is_a_504_before_lambda_cuts_the_connection() -> None:
    async def forever() -> list[Buffer] | None:
        await asyncio.Event().wait()
        return None

    assert refused(function_event(b"frame"), answers=FakeDispatcher(forever), remaining_ms=260) == (
        504,
        "REQUEST_TIMED_OUT",
    )


def test_an_invocation_is_billed_by_time_and_memory() -> None:
    clock, meter = ManualClock(), InvocationMeter()

    async def work() -> list[Buffer] | None:
        clock.advance(0.2004)
        return [b"answer"]

    produce, lines = handler(PRODUCE, FakeDispatcher(work), clock=clock, meter=meter)
    produce(function_event(b"frame"), FakeContext())
    usage = meter.total.usage
    assert usage.function_requests == 1
    assert usage.function_gb_seconds == pytest.approx(0.201)  # 1024 MB, rounded up to a millisecond
    assert (usage.payload_bytes_in, usage.payload_bytes_out) == (5, 6)
    assert lines[0]["duration_ms"] == pytest.approx(200.4)


def test_a_detailed_line_is_a_valid_embedded_metric() -> None:
    produce, lines = handler(PRODUCE, detailed_metrics=True)
    produce(function_event(b"frame"), FakeContext())
    [directive] = lines[0]["_aws"]["CloudWatchMetrics"]
    for dimension in directive["Dimensions"][0]:
        assert isinstance(lines[0][dimension], str)
    for metric in directive["Metrics"]:
        assert isinstance(lines[0][metric["Name"]], int | float), metric


async def test_usage_belongs_to_the_invocation_that_caused_it() -> None:
    meter, gate = InvocationMeter(), asyncio.Event()

    async def wait() -> list[Buffer] | None:
        await gate.wait()
        return [b"slow"]

    slow, slow_lines = handler(FunctionName.FETCH, FakeDispatcher(wait), meter=meter)
    clock = ManualClock()
    engine = Engine(
        tables=MemoryStore(meter),
        objects=MemoryObjectStore(clock),
        clock=clock,
        rng=SeededRng(),
    )
    admin, admin_lines = handler(ADMIN, dispatcher(engine), meter=meter)
    waiting = asyncio.create_task(slow.handle(function_event(b"frame"), FakeContext()))
    await asyncio.sleep(0)
    await admin.handle(function_event(CREATE), FakeContext())
    gate.set()
    await waiting
    assert admin_lines[0]["table_write_units"] > 0
    assert "table_write_units" not in slow_lines[0]
    assert meter.total.usage.table_write_units == admin_lines[0]["table_write_units"]


def test_dispatcher_is_what_the_handler_expects() -> None:
    """The fake takes what the real one requires; what is optional there (`arrival`) is the gateway's."""
    real, fake = (
        inspect.signature(dispatcher_class.dispatch).parameters.values()
        for dispatcher_class in (Dispatcher, FakeDispatcher)
    )
    required = [parameter.name for parameter in real if parameter.default is inspect.Parameter.empty]
    assert [parameter.name for parameter in fake] == required
