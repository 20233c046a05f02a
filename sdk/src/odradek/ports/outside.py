"""Services outside of the store that triggers call and leave records at. One call is one attempt.

A failure says whether the function has run: only then has it failed, and an attempt is used up.
"""

from __future__ import annotations

from typing import Protocol

from odradek.errors import OdradekError


class OutsideFailed(OdradekError):
    """The function raised, or the service did not say in time that it has done what was asked: it may have."""


class OutsideRefused(OutsideFailed):
    """Not done: the service is busy, the function or place is missing, or the caller may not use it. Try later."""


class PayloadTooLarge(OutsideRefused):
    """Not done, and never will be: it has more bytes than the service takes."""


class Outside(Protocol):
    """Calls of functions, queues, topics and buckets of AWS (adapters/aws/outside.py)."""

    async def invoke(self, function_arn: str, payload: bytes, timeout_s: float) -> bytes:
        """Invoke a Lambda function and return its response.

        Raises OutsideFailed, also for what the function raised; OutsideRefused: it has not run; PayloadTooLarge.
        """
        ...

    async def send_message(self, queue_url: str, body: str) -> None:
        """Send a message to a queue of SQS. Raises OutsideFailed."""
        ...

    async def publish(self, topic_arn: str, body: str) -> None:
        """Publish to a topic of SNS. Raises OutsideFailed."""
        ...

    async def put_object(self, bucket: str, key: str, body: bytes) -> None:
        """Write an object to S3, over an earlier one. Raises OutsideFailed."""
        ...
