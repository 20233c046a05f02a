"""The contract of task queues over SQS, as moto plays it; and what SQS says that moto never does."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from odradek.adapters.aws import SqsTaskQueue, open_queue
from odradek.errors import OutcomeUnknown, StoreRejected, StoreUnavailable
from odradek.testing.contract import check_id
from odradek.testing.contract_task_queue import TASK_QUEUE_CHECKS, TaskQueueCheck

from tests.support.stores.aws import CREDENTIALS, REGION, create_queue, moto_server


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, moto_server() as url:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        yield url


@pytest.mark.parametrize("check", TASK_QUEUE_CHECKS, ids=check_id)
def test_task_queue(check: TaskQueueCheck, endpoint: str) -> None:
    queue_url = create_queue(endpoint, uuid.uuid4().hex)
    asyncio.run(check(open_queue(queue_url, region=REGION, endpoint_url=endpoint)))  # type: ignore[arg-type]


def answering(outcome: Any) -> SqsTaskQueue:
    """A queue whose service answers, or raises, that."""

    def send_message_batch(**_: Any) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    config = SimpleNamespace(max_pool_connections=1)
    client = SimpleNamespace(meta=SimpleNamespace(config=config), send_message_batch=send_message_batch)
    return SqsTaskQueue(client, "https://queue.example/")


def failed(number: str, *, sender: bool) -> dict[str, Any]:
    return {"Id": number, "SenderFault": sender, "Code": "Code", "Message": "said SQS"}


async def test_what_sqs_did_not_take_is_given_back() -> None:
    queue = answering({"Successful": [{"Id": "0"}], "Failed": [failed("2", sender=False), failed("1", sender=False)]})
    assert await queue.send(["a", "b", "c"]) == ["c", "b"]


async def test_what_sqs_will_never_take_is_rejected() -> None:
    with pytest.raises(StoreRejected, match="said SQS"):
        await answering({"Failed": [failed("0", sender=True)]}).send(["a"])


async def test_errors_say_whether_anything_was_sent() -> None:
    throttled = ClientError({"Error": {"Code": "ThrottlingException"}}, "SendMessageBatch")
    with pytest.raises(StoreUnavailable):
        await answering(throttled).send(["a"])
    with pytest.raises(OutcomeUnknown):
        await answering(ReadTimeoutError(endpoint_url="https://queue.example/")).send(["a"])
