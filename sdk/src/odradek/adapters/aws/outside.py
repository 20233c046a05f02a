"""AWS services that triggers call and leave records at: Lambda, SQS, SNS, S3. Clients are created at their first use.

Each call is one attempt: whoever calls decides about another. What an answer of Lambda's API means:

    FunctionError           the function ran and failed                                           OutsideFailed
    no answer in time       it may have run                                                       OutsideFailed
    413                     more bytes than a call takes                                          PayloadTooLarge
    any other error         it did not run: 429 throttled, 404 deleted, 403 not permitted, 5xx    OutsideRefused
    no connection           it did not run                                                        OutsideRefused

Source: Lambda API reference, "Invoke", its errors.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import botocore.session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
)

from odradek.adapters.aws.clients import CONNECT_TIMEOUT_S
from odradek.limits import CALLS_AT_ONCE
from odradek.ports.meter import Meter, NullMeter, Usage
from odradek.ports.outside import OutsideFailed, OutsideRefused, PayloadTooLarge

T = TypeVar("T")
_TIMEOUT_S = 10.0
_ERROR_CHARACTERS = 500
_TOO_LARGE = ("RequestTooLargeException", "RequestEntityTooLargeException", "413")
_NOT_SENT = (ConnectTimeoutError, EndpointConnectionError, NoCredentialsError)


class AwsServices:
    """Implements ports.outside.Outside.

    Args:
        region: AWS region; None for that of the environment.
        endpoint_url: of an emulator; None for AWS.
        meter: counts what AWS bills; the duration of other functions is theirs.
    """

    def __init__(self, *, region: str | None, endpoint_url: str | None = None, meter: Meter | None = None) -> None:
        self._region = region
        self._endpoint_url = endpoint_url
        self._meter = meter or NullMeter()
        self._clients: dict[tuple[str, float], Any] = {}
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="odradek-outside")

    async def invoke(self, function_arn: str, payload: bytes, timeout_s: float) -> bytes:
        self._meter.add("Invoke", Usage(function_requests=1))

        def call() -> tuple[bytes, bool]:
            response = self._client("lambda", timeout_s).invoke(
                FunctionName=function_arn, InvocationType="RequestResponse", Payload=payload
            )
            return response["Payload"].read(), "FunctionError" in response

        body, has_failed = await self._run("lambda invoke", call)
        if has_failed:
            raise OutsideFailed(_what_it_raised(body))
        return body

    async def send_message(self, queue_url: str, body: str) -> None:
        self._meter.add("SendMessage", Usage(queue_requests=1))
        await self._call("sqs", "send_message", QueueUrl=queue_url, MessageBody=body)

    async def publish(self, topic_arn: str, body: str) -> None:
        await self._call("sns", "publish", TopicArn=topic_arn, Message=body)

    async def put_object(self, bucket: str, key: str, body: bytes) -> None:
        self._meter.add("PutObject", Usage(object_put_requests=1))
        await self._call("s3", "put_object", Bucket=bucket, Key=key, Body=body, ContentType="application/json")

    async def _call(self, service: str, method: str, **arguments: Any) -> None:
        await self._run(f"{service} {method}", lambda: getattr(self._client(service, _TIMEOUT_S), method)(**arguments))

    async def _run(self, name: str, call: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except ClientError as error:
            is_too_large = error.response.get("Error", {}).get("Code") in _TOO_LARGE
            raise (PayloadTooLarge if is_too_large else OutsideRefused)(f"{name}: {error}") from error
        except _NOT_SENT as error:
            raise OutsideRefused(f"{name}: {error}") from error
        except BotoCoreError as error:
            raise OutsideFailed(f"{name}: {error}") from error

    def _client(self, service: str, timeout_s: float) -> Any:
        with self._lock:
            if (service, timeout_s) not in self._clients:
                self._clients[service, timeout_s] = botocore.session.get_session().create_client(
                    service,
                    region_name=self._region,
                    endpoint_url=self._endpoint_url,
                    config=Config(
                        connect_timeout=CONNECT_TIMEOUT_S,
                        read_timeout=timeout_s,
                        retries={"total_max_attempts": 1},
                        max_pool_connections=CALLS_AT_ONCE,
                        tcp_keepalive=True,  # a connection that waits for minutes is closed by what lies between
                    ),
                )
            return self._clients[service, timeout_s]


def _what_it_raised(body: bytes) -> str:
    """Return `ValueError: what it said` of a function's error, or its text where it has another form."""
    text = body.decode("utf-8", "replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and isinstance(document.get("errorMessage"), str):
        error_type = document.get("errorType")
        text = f"{error_type}: {document['errorMessage']}" if isinstance(error_type, str) else document["errorMessage"]
    return text[:_ERROR_CHARACTERS]
