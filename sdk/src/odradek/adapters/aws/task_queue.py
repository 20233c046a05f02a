"""A standard SQS queue of tasks. AWS may accept some messages of a batch and refuse others, which are returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.adapters.aws.calls import Calls, Refused
from odradek.adapters.aws.clients import CONNECT_TIMEOUT_S
from odradek.errors import StoreRejected, StoreUnavailable
from odradek.limits import QUEUE_BATCH_BYTES_MAX
from odradek.ports.meter import Meter, NullMeter, Usage
from odradek.ports.task_queue import MESSAGES_PER_SEND_MAX, check_delay

TIMEOUT_S = 10.0
CONNECTIONS = 8


class SqsTaskQueue:
    """ports.task_queue.TaskQueue over a queue.

    Args:
        client: botocore's SQS client, made for one attempt a call.
        queue_url: the queue.
        calls: the threads to call in; by default a separate pool.
    """

    def __init__(self, client: Any, queue_url: str, meter: Meter | None = None, *, calls: Calls | None = None) -> None:
        self._client = client
        self._queue_url = queue_url
        self._meter = meter or NullMeter()
        self._calls = calls or Calls.for_client(client)

    async def send(self, messages: Sequence[str], *, delay_s: int = 0) -> list[str]:
        check_delay(delay_s)
        if not 1 <= len(messages) <= MESSAGES_PER_SEND_MAX:
            raise ValueError(f"a call sends 1 to {MESSAGES_PER_SEND_MAX} messages, not {len(messages)}")
        if (size := sum(len(message.encode()) for message in messages)) > QUEUE_BATCH_BYTES_MAX:
            raise StoreRejected(f"the messages of a call may have at most {QUEUE_BATCH_BYTES_MAX} bytes, not {size}")
        self._meter.add("SendMessageBatch", Usage(queue_requests=1))
        try:
            response = await self._calls.write(
                self._client.send_message_batch,
                QueueUrl=self._queue_url,
                Entries=[
                    {"Id": str(number), "MessageBody": message, **({"DelaySeconds": delay_s} if delay_s else {})}
                    for number, message in enumerate(messages)
                ],
            )
        except Refused as refused:
            raise StoreUnavailable(str(refused)) from refused
        failed = response.get("Failed", ())
        if faulty := [failure for failure in failed if failure.get("SenderFault")]:
            raise StoreRejected(f"SQS refused a message: {faulty[0].get('Code')} {faulty[0].get('Message', '')}")
        return [messages[int(failure["Id"])] for failure in failed]

    async def waiting(self) -> int:
        self._meter.add("GetQueueAttributes", Usage(queue_requests=1))
        name = "ApproximateNumberOfMessages"
        try:
            response = await self._calls.read(
                self._client.get_queue_attributes, QueueUrl=self._queue_url, AttributeNames=[name]
            )
        except Refused as refused:
            raise StoreUnavailable(str(refused)) from refused
        return int(response["Attributes"][name])


def open_queue(
    queue_url: str, *, region: str | None, endpoint_url: str | None = None, meter: Meter | None = None
) -> SqsTaskQueue:
    """Create the client and the queue; makes no call yet.

    Args:
        queue_url: the queue's URL, as CloudFormation outputs it.
        region: AWS region; None for that of the environment.
        endpoint_url: of an emulator; None for AWS.
        meter: counts what AWS bills.
    """
    import botocore.session
    from botocore.config import Config

    client = botocore.session.get_session().create_client(
        "sqs",
        region_name=region,
        endpoint_url=endpoint_url,
        config=Config(
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=TIMEOUT_S,
            retries={"total_max_attempts": 1},
            max_pool_connections=CONNECTIONS,
        ),
    )
    return SqsTaskQueue(client, queue_url, meter)
