"""Failures of the AWS adapters: surely not applied, or unknown, and never retried unasked."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
    ResponseStreamingError,
)
from odradek.adapters.aws import DynamoTable, S3ObjectStore
from odradek.adapters.aws.calls import READ_ATTEMPTS_MAX, Calls, Refused, translated
from odradek.adapters.aws.direct.connections import Connections
from odradek.adapters.aws.direct.dynamodb import DirectDynamoDb
from odradek.adapters.aws.direct.signature import Credentials, Signer
from odradek.backoff import Backoff
from odradek.cost.metering import UsageMeter
from odradek.errors import (
    ConditionFailed,
    ItemTooLarge,
    ObjectExists,
    ObjectMissing,
    OutcomeUnknown,
    StoreRejected,
    StoreUnavailable,
    TransactionCanceled,
    TransactionConflict,
)
from odradek.ports.meter import Usage
from odradek.ports.table import Absent, Add, Check, Exists, Key, Put, Row, Update
from odradek.system import SystemClock

KEY = Key("t", "head")
URL = "http://127.0.0.1"


def aws_error(code: str, status: int = 400, message: str = "as told", **response: Any) -> ClientError:
    parsed: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(parsed | response, "Operation")


class Script:
    """A client whose every method plays the next line: an error to raise or an answer to give."""

    def __init__(self, *lines: Any) -> None:
        self.lines = list(lines)
        self.requests: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._play

    def _play(self, **parameters: Any) -> Any:
        self.requests.append(parameters)
        line = self.lines.pop(0)
        if isinstance(line, Exception):
            raise line
        return line


@pytest.fixture
def calls() -> Iterator[Calls]:
    with ThreadPoolExecutor(2) as pool:
        yield Calls(pool)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(self: Backoff, attempt: int) -> None:
        return None

    monkeypatch.setattr(Backoff, "pause", at_once)


@pytest.mark.parametrize(
    ("error", "of_a_write", "of_a_read"),
    [
        (aws_error("ProvisionedThroughputExceededException"), StoreUnavailable, StoreUnavailable),
        (aws_error("ThrottlingException"), StoreUnavailable, StoreUnavailable),
        (aws_error("RequestLimitExceeded"), StoreUnavailable, StoreUnavailable),
        (aws_error("TransactionConflictException"), TransactionConflict, TransactionConflict),
        (aws_error("SlowDown", 503), StoreUnavailable, StoreUnavailable),
        (aws_error("ConditionalRequestConflict", 409), StoreUnavailable, StoreUnavailable),
        (aws_error("AccessDeniedException"), StoreUnavailable, StoreUnavailable),
        (aws_error("ResourceNotFoundException"), StoreUnavailable, StoreUnavailable),
        (aws_error("InternalServerError", 500), OutcomeUnknown, StoreUnavailable),
        (aws_error("ServiceUnavailable", 503), OutcomeUnknown, StoreUnavailable),
        (aws_error("ValidationException", message="bad expression"), StoreRejected, StoreRejected),
        (aws_error("ValidationException", message="Item size has exceeded the maximum"), ItemTooLarge, ItemTooLarge),
        (aws_error("ConditionalCheckFailedException"), Refused, Refused),
        (ParamValidationError(report="bad"), StoreRejected, StoreRejected),
        (EndpointConnectionError(endpoint_url=URL), StoreUnavailable, StoreUnavailable),
        (ConnectTimeoutError(endpoint_url=URL), StoreUnavailable, StoreUnavailable),
        (NoCredentialsError(), StoreUnavailable, StoreUnavailable),
        (ReadTimeoutError(endpoint_url=URL), OutcomeUnknown, StoreUnavailable),
        (ConnectionClosedError(endpoint_url=URL), OutcomeUnknown, StoreUnavailable),
        (ResponseStreamingError(error="cut"), OutcomeUnknown, StoreUnavailable),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value)[:60],
)
def test_errors_are_told_in_the_ports_words(error: Exception, of_a_write: type, of_a_read: type) -> None:
    assert type(translated(error, write=True)) is of_a_write
    assert type(translated(error, write=False)) is of_a_read


async def test_a_write_is_tried_once(calls: Calls) -> None:
    for error, expected in (
        (aws_error("ThrottlingException"), StoreUnavailable),
        (ReadTimeoutError(endpoint_url=URL), OutcomeUnknown),
        (aws_error("InternalServerError", 500), OutcomeUnknown),
    ):
        client = Script(error)
        with pytest.raises(expected):
            await DynamoTable(client, "log", calls=calls).update(Update(KEY, (Add(("n",), 1),)))
        assert len(client.requests) == 1


async def test_a_read_is_tried_again(calls: Calls) -> None:
    client = Script(
        aws_error("ThrottlingException"),
        ReadTimeoutError(endpoint_url=URL),
        {"Item": {"pk": {"S": "t"}, "sk": {"S": "head"}, "n": {"N": "3"}}},
    )
    assert await DynamoTable(client, "log", calls=calls).get(KEY) == {"n": 3}
    client = Script(*[aws_error("ThrottlingException")] * 20)
    with pytest.raises(StoreUnavailable):
        await DynamoTable(client, "log", calls=calls).get(KEY)
    assert len(client.requests) == READ_ATTEMPTS_MAX
    client = Script(*[aws_error("AccessDeniedException")] * 20)
    with pytest.raises(StoreUnavailable):
        await DynamoTable(client, "log", calls=calls).get(KEY)
    assert len(client.requests) == 1, "what is not allowed now will not be in a moment"


async def test_unprocessed_keys_are_asked_for_again(calls: Calls) -> None:
    def row(sk: str) -> dict[str, Any]:
        return {"pk": {"S": "t"}, "sk": {"S": sk}}

    client = Script(
        {"Responses": {"log": [row("b")]}, "UnprocessedKeys": {"log": {"Keys": [row("a"), row("c")]}}},
        {"Responses": {"log": []}, "UnprocessedKeys": {"log": {"Keys": [row("a"), row("c")]}}},
        {"Responses": {"log": [row("c")]}, "UnprocessedKeys": {}},
    )
    keys = [Key("t", sk) for sk in "abc"]
    assert await DynamoTable(client, "log", calls=calls).get_many(keys) == [None, {}, {}]
    throttled = {"Responses": {"log": []}, "UnprocessedKeys": {"log": {"Keys": [row("a")]}}}
    with pytest.raises(StoreUnavailable):
        await DynamoTable(Script(*[throttled] * 20), "log", calls=calls).get_many(keys)


def canceled(*codes: str) -> ClientError:
    reasons = [{"Code": code, "Message": "as told"} for code in codes]
    return aws_error("TransactionCanceledException", CancellationReasons=reasons)


@pytest.mark.parametrize("code", ["ThrottlingError", "ProvisionedThroughputExceeded"])
async def test_a_throttled_read_of_several_items_at_one_moment_is_tried_again(code: str, calls: Calls) -> None:
    keys = [KEY, Key("t", "x")]
    client = Script(canceled(code, "None"), canceled("None", code), {"Responses": [{}, {}]})
    assert await DynamoTable(client, "log", calls=calls).transact_get(keys) == [None, None]
    client = Script(*[canceled(code, "None")] * 20)
    with pytest.raises(StoreUnavailable):
        await DynamoTable(client, "log", calls=calls).transact_get(keys)
    assert len(client.requests) == READ_ATTEMPTS_MAX
    client = Script(*[canceled("TransactionConflict", code)] * 20)
    with pytest.raises(TransactionConflict):
        await DynamoTable(client, "log", calls=calls).transact_get(keys)
    assert len(client.requests) == 1, "whoever reads decides how long to wait for the transaction"


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (["None", "ConditionalCheckFailed"], TransactionCanceled),
        (["TransactionConflict", "ConditionalCheckFailed"], TransactionCanceled),
        (["TransactionConflict", "None"], TransactionConflict),
        (["ThrottlingError", "None"], StoreUnavailable),
        (["ProvisionedThroughputExceeded", "None"], StoreUnavailable),
        (["ValidationError", "None"], StoreRejected),
    ],
)
async def test_why_a_transaction_was_canceled(codes: list[str], expected: type[Exception], calls: Calls) -> None:
    client = Script(canceled(*codes))
    meter = UsageMeter()
    with pytest.raises(expected) as raised:
        await DynamoTable(client, "log", meter, calls=calls).transact(
            [Put(KEY, {}), Check(Key("t", "x"), Absent(("n",)))]
        )
    if isinstance(raised.value, TransactionCanceled):
        first, second = raised.value.failures
        assert first is None
        assert isinstance(second, ConditionFailed)
    rejected = int(expected is StoreRejected)
    assert meter.total() == Usage(table_write_units=4, table_requests=1, rejected_requests=rejected)
    assert len(client.requests) == 1


async def test_what_dynamodb_reports_is_what_is_metered(calls: Calls) -> None:
    meter = UsageMeter()
    item = {"pk": {"S": "t"}, "sk": {"S": "head"}, "data": {"B": b"x" * 2048}}
    client = Script(
        {"Attributes": item, "ConsumedCapacity": {"CapacityUnits": 3.0}},
        aws_error("ConditionalCheckFailedException", Item=item),
        {"ConsumedCapacity": {"CapacityUnits": 0.5}},
    )
    table = DynamoTable(client, "log", meter, calls=calls)
    await table.update(Update(KEY, (Add(("n",), 1),)))
    with pytest.raises(ConditionFailed) as refused:
        await table.update(Update(KEY, (Add(("n",), 1),), Exists(("n",))))
    assert refused.value.current == {"data": b"x" * 2048}
    await table.get(KEY, consistent=False)
    assert meter.by_operation() == {
        "GetItem": Usage(table_read_units=0.5, table_requests=1),
        "UpdateItem": Usage(table_write_units=6, table_requests=2),
    }


async def test_a_create_that_meets_another_is_tried_again(calls: Calls) -> None:
    conflict = aws_error("ConditionalRequestConflict", 409)
    client = Script(conflict, conflict, {})
    await S3ObjectStore(client, "bucket", "store/", calls=calls).put("wal/a", [b"x"])
    assert [request["Key"] for request in client.requests] == ["store/wal/a"] * 3
    assert all(request["IfNoneMatch"] == "*" for request in client.requests)
    with pytest.raises(ObjectExists):
        await S3ObjectStore(Script(conflict, aws_error("PreconditionFailed", 412)), "b", calls=calls).put("a", [b"x"])
    with pytest.raises(StoreUnavailable):
        await S3ObjectStore(Script(*[conflict] * 20), "b", calls=calls).put("a", [b"x"])
    unknown = Script(ReadTimeoutError(endpoint_url=URL))
    with pytest.raises(OutcomeUnknown):
        await S3ObjectStore(unknown, "b", calls=calls).put("a", [b"x"])
    assert len(unknown.requests) == 1


async def test_a_missing_object_is_no_failure_of_the_store(calls: Calls) -> None:
    client = Script(aws_error("NoSuchKey", 404), aws_error("404", 404), aws_error("InvalidRange", 416))
    store = S3ObjectStore(client, "b", calls=calls)
    with pytest.raises(ObjectMissing):
        await store.get("a")
    assert await store.head("a") is None
    assert await store.get_range("a", 9, 1) == b""
    with pytest.raises(StoreUnavailable):
        await S3ObjectStore(Script(aws_error("NoSuchBucket", 404)), "b", calls=calls).get("a")


async def test_failed_deletes_are_told(calls: Calls) -> None:
    client = Script({"Errors": [{"Key": "a", "Code": "AccessDenied"}]})
    with pytest.raises(StoreUnavailable, match="AccessDenied"):
        await S3ObjectStore(client, "b", calls=calls).delete(["a", "b"])


async def test_deletes_go_by_the_thousand(calls: Calls) -> None:
    client = Script({}, {}, {})
    await S3ObjectStore(client, "b", calls=calls).delete([f"k{number}" for number in range(2001)])
    assert [len(request["Delete"]["Objects"]) for request in client.requests] == [1000, 1000, 1]


def test_a_stores_prefix_is_a_folder(calls: Calls) -> None:
    with pytest.raises(ValueError, match="slash"):
        S3ObjectStore(Script(), "b", "prefix", calls=calls)


# --- over real sockets: which errors the clients raise when -----------------------------------------------------------


@contextmanager
def _server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that reads one request of each connection and then does as `answer` says."""
    listener = socket.create_server(("127.0.0.1", 0))
    accepted: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            accepted.append(connection)
            connection.recv(65536)
            answer(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for connection in accepted:
            connection.close()


def _table(url: str, calls: Calls, client_type: str) -> DynamoTable:
    if client_type == "direct":
        connections = Connections(url, connect_timeout_s=5, read_timeout_s=0.5)
        signer = Signer(Credentials("testing", "testing"), "us-east-1", "dynamodb")
        return DynamoTable(DirectDynamoDb(connections, signer, SystemClock(), lambda _: None), "log", calls=calls)
    config = Config(read_timeout=0.5, connect_timeout=5, retries={"total_max_attempts": 1})
    client = botocore.session.get_session().create_client(
        "dynamodb",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        config=config,
    )
    return DynamoTable(client, "log", calls=calls)


@pytest.mark.parametrize("client_type", ["botocore", "direct"])
async def test_lost_answers_leave_the_outcome_open(client_type: str, calls: Calls) -> None:
    write = Update(KEY, (Add(("n",), 1),))
    with _server(lambda connection: connection.close()) as url:
        with pytest.raises(OutcomeUnknown):
            await _table(url, calls, client_type).update(write)
        with pytest.raises(StoreUnavailable):
            await _table(url, calls, client_type).get(KEY)
    with _server(lambda connection: None) as url, pytest.raises(OutcomeUnknown):
        await _table(url, calls, client_type).update(write)
    half_an_answer = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"
    with _server(lambda connection: connection.sendall(half_an_answer)) as url, pytest.raises(OutcomeUnknown):
        await _table(url, calls, client_type).update(write)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(StoreUnavailable):
        await _table(url, calls, client_type).update(write)


# --- throttling, as DynamoDB answers it: the same to both clients -----------------------------------------------------

EXCEEDED = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"
THROTTLED = {
    "the table's capacity": EXCEEDED,
    "an account's": "com.amazonaws.dynamodb.v20120810#RequestLimitExceeded",
    "a key's, on demand": "com.amazon.coral.availability#ThrottlingException",
}
ROW = {"pk": {"S": "t"}, "sk": {"S": "head"}, "data": {"B": "AAE="}}
STORED = {"data": b"\x00\x01"}


class Answers:
    """DynamoDB's answers in turn, the last one for ever; counts the requests."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        self._documents = list(documents)
        self.requests = 0

    def __call__(self, connection: socket.socket) -> None:
        self.requests += 1
        document = self._documents.pop(0) if len(self._documents) > 1 else self._documents[0]
        body = json.dumps(document).encode()
        status = b"400 Bad Request" if "__type" in document else b"200 OK"
        head = b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        connection.sendall(head + body)


def refusal(exception_type: str, *reasons: str) -> dict[str, Any]:
    document: dict[str, Any] = {"__type": exception_type, "message": "as told"}
    return document | ({"CancellationReasons": [{"Code": code} for code in reasons]} if reasons else {})


@pytest.mark.parametrize("client_type", ["botocore", "direct"])
@pytest.mark.parametrize("code", THROTTLED.values(), ids=THROTTLED)
async def test_a_throttled_call_is_told_alike(code: str, client_type: str, calls: Calls) -> None:
    answers = Answers(refusal(code))
    with _server(answers) as url:
        for write in (Update(KEY, (Add(("n",), 1),)), Update(KEY, (Add(("n",), 1),), Exists(("n",)))):
            with pytest.raises(StoreUnavailable):
                await _table(url, calls, client_type).update(write)
        with pytest.raises(StoreUnavailable):
            await _table(url, calls, client_type).transact([Put(KEY, {})])
    assert answers.requests == 3, "the engine decides about another attempt"
    throttled = refusal(code)
    left = {"log": {"Keys": [{"pk": {"S": "t"}, "sk": {"S": "head"}}]}}
    for documents, read, expected in (
        ([{"Item": ROW}], lambda table: table.get(KEY), STORED),
        ([{"Items": [ROW]}], lambda table: table.query("t"), [Row(KEY, STORED)]),
        ([{"Responses": [{"Item": ROW}]}], lambda table: table.transact_get([KEY]), [STORED]),
        (
            [{"Responses": {}, "UnprocessedKeys": left}, throttled, {"Responses": {"log": [ROW]}}],
            lambda table: table.get_many([KEY]),
            [STORED],
        ),
    ):
        with _server(Answers(throttled, throttled, *documents)) as url:
            assert await read(_table(url, calls, client_type)) == expected


@pytest.mark.parametrize("client_type", ["botocore", "direct"])
async def test_a_transaction_that_is_canceled_by_a_throttle_is_told_alike(client_type: str, calls: Calls) -> None:
    of = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException"
    both = [Put(KEY, {}), Check(Key("t", "x"), Absent(("n",)))]
    for reasons, expected in (
        (("ThrottlingError", "None"), StoreUnavailable),
        (("None", "ProvisionedThroughputExceeded"), StoreUnavailable),
        (("ThrottlingError", "TransactionConflict"), TransactionConflict),
        (("ThrottlingError", "ConditionalCheckFailed"), TransactionCanceled),
    ):
        answers = Answers(refusal(of, *reasons))
        with _server(answers) as url, pytest.raises(expected) as raised:
            await _table(url, calls, client_type).transact(both)
        assert (type(raised.value), answers.requests) == (expected, 1)
    throttled = refusal(of, "ThrottlingError", "None")
    with _server(Answers(throttled, throttled, {"Responses": [{"Item": ROW}, {}]})) as url:
        assert await _table(url, calls, client_type).transact_get([KEY, Key("t", "x")]) == [STORED, None]
