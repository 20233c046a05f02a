"""Lambda functions as targets, over AWS's client: what each answer of Lambda's API means for the records."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from odradek.adapters.aws.outside import AwsServices
from odradek.limits import FUNCTION_PAYLOAD_BYTES_MAX
from odradek.model.record import CompressionType

from tests.support.engine import batch, produce, read_all
from tests.support.services.dispatched import Dispatched

FUNCTION = "arn:aws:lambda:eu-west-1:123456789012:function:orders"


@dataclass
class Answer:
    """An answer of Lambda's API; without a status, none comes for a second."""

    status: int | None = 200
    body: Any = None
    error: str = ""  # of the API, not of the function
    function_error: str = ""


THROTTLED = Answer(429, {"Reason": "ReservedFunctionConcurrentInvocationLimitExceeded"}, "TooManyRequestsException")
RAISED = Answer(200, {"errorType": "ValueError", "errorMessage": "bad", "stackTrace": []}, function_error="Unhandled")


class LambdaApi:
    """A server that answers Invoke by script, and then with success."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.done = threading.Event()
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                event = json.loads(self.rfile.read(int(self.headers["content-length"])))
                api.calls.append((self.path, event))
                answer = api.answers.pop(0) if api.answers else Answer()
                if answer.status is None:
                    api.done.wait(30)
                    return
                body = json.dumps(answer.body).encode()
                self.send_response(answer.status)
                if answer.error:
                    self.send_header("x-amzn-ErrorType", answer.error)
                if answer.function_error:
                    self.send_header("X-Amz-Function-Error", answer.function_error)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.done.set()
        self._server.shutdown()
        self._server.server_close()

    def offsets(self) -> list[list[int]]:
        return [[record["offset"] for record in event["records"]["orders-0"]] for _, event in self.calls]


@pytest.fixture(scope="module")
def credentials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environ:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environ.setenv(name, "testing")
        yield


@pytest.fixture
def api(credentials: None) -> Iterator[LambdaApi]:
    api = LambdaApi()
    yield api
    api.stop()


@pytest.fixture
async def dispatched(api: LambdaApi) -> Dispatched:
    dispatched = Dispatched(lambda: AwsServices(region="eu-west-1", endpoint_url=api.url), catalog_cache_ms=0)
    await dispatched.engine.topics.create("orders", 1)
    return dispatched


async def test_a_function_is_called_with_the_event_and_its_response_is_read(
    dispatched: Dispatched, api: LambdaApi
) -> None:
    failed = {"batchItemFailures": [{"itemIdentifier": {"partition": "orders-0", "offset": 1}}]}
    api.answers = [Answer(body=failed)]
    await dispatched.create(function=FUNCTION)
    await dispatched.work_off()
    await produce(dispatched.engine, "orders", 0, batch([b"a", b"b", b"c"]))
    await dispatched.work_off()
    assert api.offsets() == [[0, 1, 2], [1, 2]]
    path, event = api.calls[0]
    assert "function%3Aorders/invocations" in path
    assert base64.b64decode(event["records"]["orders-0"][0]["value"]) == b"a"
    status = await dispatched.status()
    assert (status.lag, status.invocations, status.failures) == (0, 2, 1)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (THROTTLED, "TooManyRequestsException"),
        (Answer(404, {"Message": "Function not found"}, "ResourceNotFoundException"), "ResourceNotFoundException"),
        (Answer(403, {"Message": "not authorized to perform"}, "AccessDeniedException"), "AccessDeniedException"),
        (Answer(500, {"Message": "internal"}, "ServiceException"), "ServiceException"),
        (Answer(502, {"Message": "kms"}, "KMSAccessDeniedException"), "KMSAccessDeniedException"),
    ],
    ids=["throttled", "deleted", "not permitted", "service", "key"],
)
async def test_a_function_that_has_not_run_loses_no_records_however_often(
    dispatched: Dispatched, api: LambdaApi, answer: Answer, said: str
) -> None:
    """Lambda's mapping counts the errors of the function, and calls again after others until the records expire."""
    api.answers = [answer] * 5
    await dispatched.create(function=FUNCTION, starting_position="TRIM_HORIZON", retry_attempts=0, bisect=True)
    await produce(dispatched.engine, "orders", 0, batch([b"a", b"b"]))
    await dispatched.work_off()
    status = await dispatched.status()
    assert (status.lag, status.invocations, status.given_up) == (2, 0, 0)
    assert said in status.error
    assert status.retry_ms > dispatched.clock.now_ms()
    await dispatched.pass_time(300)
    assert api.offsets() == [[0, 1]] * 6
    status = await dispatched.status()
    assert (status.lag, status.invocations, status.given_up, status.retry_ms) == (0, 1, 0, 0)


async def test_what_a_function_raises_counts_and_is_told(dispatched: Dispatched, api: LambdaApi) -> None:
    api.answers = [RAISED] * 2
    await dispatched.engine.topics.create("failed", 1)
    await dispatched.create(
        function=FUNCTION, starting_position="TRIM_HORIZON", retry_attempts=1, on_failure="topic:failed"
    )
    await produce(dispatched.engine, "orders", 0, batch([b"a"]))
    await dispatched.pass_time(60)
    status = await dispatched.status()
    assert (status.lag, status.invocations, status.given_up, status.error) == (0, 2, 1, "ValueError: bad")
    [kept] = await read_all(dispatched.engine, "failed", 0)
    assert dict(kept.headers)["odradek.trigger.condition"] == b"RetryAttemptsExhausted"


async def test_a_call_that_is_not_answered_in_time_is_a_failed_attempt(dispatched: Dispatched, api: LambdaApi) -> None:
    api.answers = [Answer(None)]
    await dispatched.create(function=FUNCTION, starting_position="TRIM_HORIZON", timeout_s=1)
    await produce(dispatched.engine, "orders", 0, batch([b"a"]))
    await dispatched.pass_time(10)
    status = await dispatched.status()
    assert (status.invocations, status.failures, status.lag) == (2, 1, 0)
    assert "Read timeout" in status.error


async def test_an_event_above_6_mb_is_halved_and_one_that_lambda_refuses_too(
    dispatched: Dispatched, api: LambdaApi
) -> None:
    api.answers = [Answer(413, {"Message": "too large"}, "RequestTooLargeException")]
    await dispatched.create(function=FUNCTION, starting_position="TRIM_HORIZON", retry_attempts=0)
    await produce(dispatched.engine, "orders", 0, batch([bytes(1_000_000)] * 8, compression=CompressionType.GZIP))
    await dispatched.pass_time(60)
    status = await dispatched.status()
    assert (status.lag, status.given_up) == (0, 0)
    sizes = [len(json.dumps(event)) for _, event in api.calls]
    assert max(sizes) <= FUNCTION_PAYLOAD_BYTES_MAX
    first, *others = api.offsets()
    assert sorted(offset for other in others for offset in other) == [*range(8)], "each record once"
    assert others[0] == first[: len(others[0])], "the refused call came again, halved"


async def test_a_destination_that_refuses_holds_the_records_back(dispatched: Dispatched, api: LambdaApi) -> None:
    api.answers = [RAISED] * 3
    await dispatched.create(
        function=FUNCTION, starting_position="TRIM_HORIZON", retry_attempts=0, on_failure="topic:missing"
    )
    await produce(dispatched.engine, "orders", 0, batch([b"a"]))
    await dispatched.work_off()
    status = await dispatched.status()
    assert (status.lag, status.given_up) == (1, 0)
    assert "'missing' of on_failure does not exist: create it" in status.error
    await dispatched.engine.topics.create("missing", 1)
    await dispatched.pass_time(30)
    assert [record.value for record in await read_all(dispatched.engine, "missing", 0)] == [b"a"]


async def test_many_given_up_records_go_to_a_topic_in_batches_that_it_takes(
    dispatched: Dispatched, api: LambdaApi
) -> None:
    api.answers = [RAISED]
    await dispatched.engine.topics.create("failed", 1)
    await dispatched.create(
        function=FUNCTION, starting_position="TRIM_HORIZON", retry_attempts=0, on_failure="topic:failed"
    )
    await produce(dispatched.engine, "orders", 0, batch([bytes(400_000)] * 8, compression=CompressionType.GZIP))
    await dispatched.work_off()
    status = await dispatched.status()
    assert (status.lag, status.given_up) == (0, 8)
    assert len(await read_all(dispatched.engine, "failed", 0)) == 8
