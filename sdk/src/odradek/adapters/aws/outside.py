"""AWS services that triggers call and leave records at: Lambda, SQS, SNS, S3. Clients are created at their first use.

Each call is one attempt: whoever calls decides about another. A failure is `OutsideFailed`, with AWS's text.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from odradek.adapters.aws.store import CONNECT_TIMEOUT_S
from odradek.errors import OdradekError
from odradek.ports.meter import Meter, NullMeter, Usage

_CONNECTIONS = 64
_TIMEOUT_S = 10.0


class OutsideFailed(OdradekError):
    """A service outside of the store did not do what was asked, or did not say that it had."""


class AwsServices:
    """Calls to AWS on behalf of triggers.

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
        self._threads = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="odradek-outside")

    async def invoke(self, function_arn: str, payload: bytes, timeout_s: float) -> bytes:
        """Invoke a Lambda function and return its response. Raises OutsideFailed, also for what the function raised."""
        self._meter.add("Invoke", Usage(function_requests=1))
        answer = await self._call(
            "lambda", "invoke", timeout_s, FunctionName=function_arn, InvocationType="RequestResponse", Payload=payload
        )
        body: bytes = await asyncio.to_thread(answer["Payload"].read)
        if "FunctionError" in answer:
            raise OutsideFailed(body.decode("utf-8", "replace")[:500])
        return body

    async def send_message(self, queue_url: str, body: str) -> None:
        """Send a message to a queue of SQS. Raises OutsideFailed."""
        self._meter.add("SendMessage", Usage(queue_requests=1))
        await self._call("sqs", "send_message", _TIMEOUT_S, QueueUrl=queue_url, MessageBody=body)

    async def publish(self, topic_arn: str, body: str) -> None:
        """Publish to a topic of SNS. Raises OutsideFailed."""
        await self._call("sns", "publish", _TIMEOUT_S, TopicArn=topic_arn, Message=body)

    async def put_object(self, bucket: str, key: str, body: bytes) -> None:
        """Write an object to S3, over an earlier one. Raises OutsideFailed."""
        await self._call(
            "s3", "put_object", _TIMEOUT_S, Bucket=bucket, Key=key, Body=body, ContentType="application/json"
        )

    async def _call(self, service: str, method: str, timeout_s: float, **arguments: Any) -> Any:
        def call() -> Any:
            return getattr(self._client(service, timeout_s), method)(**arguments)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except (BotoCoreError, ClientError) as error:
            raise OutsideFailed(f"{service} {method}: {error}") from error

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
                        max_pool_connections=_CONNECTIONS,
                    ),
                )
            return self._clients[service, timeout_s]
