"""Callbacks of a consumer for changes of its assignment."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Protocol

from odradek.model.topic_partition import TopicPartition


class RebalanceListener:
    """Callbacks of a rebalance: override what you need. With odradek.aio the methods may be coroutines.

    They are called inside `poll`, `close` and `unsubscribe`, in the polling thread, and may call the consumer.
    """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """The partitions are assigned to this consumer. Nothing has been fetched yet, so a seek takes effect."""
        return None

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """The partitions are about to go to another member. They are still owned: commit what was processed."""
        return None

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """The partitions already belong to another member: a commit would be refused."""
        return None


class Caller(Protocol):
    """Runs a listener's method in the thread or task where the user expects it."""

    async def __call__(
        self, method: Callable[[list[TopicPartition]], Awaitable[None] | None], partitions: list[TopicPartition]
    ) -> None: ...


async def call_here(
    method: Callable[[list[TopicPartition]], Awaitable[None] | None], partitions: list[TopicPartition]
) -> None:
    """Call a listener's method on this loop, and await it if it is a coroutine."""
    outcome = method(partitions)
    if inspect.isawaitable(outcome):
        await outcome
