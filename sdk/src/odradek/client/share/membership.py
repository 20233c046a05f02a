"""A member of a share group (KIP-932): heartbeats in the background, and the partitions that the group may read.

    OUT ──join──> JOINING ──answer──> IN ──fenced, unknown──> JOINING

Nothing has to be revoked or handed over: this member keeps the records that it holds until their locks end, whatever
the assignment is.
"""

from __future__ import annotations

import asyncio

from odradek.client.config import ShareConsumerConfig
from odradek.client.connection import Connection, error_code
from odradek.client.consumer.heartbeats import LOST, new_member_id, pause_between_beats
from odradek.client.log import Outages
from odradek.client.messages.share import ShareGroupHeartbeatResponse, assignment, share_heartbeat_request
from odradek.client.transport.base import RequestFailed
from odradek.client.waiting import wait_for
from odradek.errors import ErrorCode, KafkaError
from odradek.model.group import JOIN_EPOCH, LEAVE_EPOCH
from odradek.model.topic_partition import PartitionId

_LEAVE_TIMEOUT_MS = 5_000


class ShareMember:
    """Keeps this consumer in its share group.

    Args:
        activity: set when `poll` has to check for records or errors.
    """

    def __init__(self, connection: Connection, config: ShareConsumerConfig, activity: asyncio.Event) -> None:
        assert config.group_id is not None
        self._connection = connection
        self._group_id = config.group_id
        self._request_timeout_s = config.request_timeout_ms / 1000
        self._activity = activity
        self.member_id = new_member_id(connection.rng)
        self._log = connection.log
        self._log.name_client(member=self.member_id)
        self._outages = Outages(self._log)
        self.partitions: frozenset[PartitionId] = frozenset()
        self._topics: tuple[str, ...] = ()
        self._epoch = JOIN_EPOCH
        self._says_topics = True
        self._failures = 0
        self._kick = asyncio.Event()
        self._error: KafkaError | None = None

    @property
    def is_in(self) -> bool:
        return self._epoch != JOIN_EPOCH

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Set the topics to read from now on."""
        self._topics = topics
        self._says_topics = True
        self._kick.set()

    def raise_error(self) -> None:
        """Raise the error that ended the membership, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            pause_s = await self._beat() if self._topics and self._error is None else None
            await wait_for(self._kick, pause_s, self._connection.clock)
            self._kick.clear()

    async def leave(self) -> None:
        """Leave the group. Errors are ignored: the session expires."""
        if self.is_in:
            try:
                await self._connection.call(
                    share_heartbeat_request(self._group_id, self.member_id, LEAVE_EPOCH, None),
                    ShareGroupHeartbeatResponse,
                    "leaving the share group",
                    timeout_ms=_LEAVE_TIMEOUT_MS,
                )
                self._log.info("left the group")
            except KafkaError as error:
                self._log.warning("could not leave the group, its session expires: %s", error)
        self._epoch = JOIN_EPOCH
        self._topics = ()
        self.partitions = frozenset()

    async def _beat(self) -> float | None:
        """Send one heartbeat; return the seconds until the next."""
        topics = self._topics
        says_topics = self._says_topics or not self.is_in
        request = share_heartbeat_request(self._group_id, self.member_id, self._epoch, topics if says_topics else None)
        try:
            response = await self._connection.attempt(request, ShareGroupHeartbeatResponse, self._request_timeout_s)
            code = error_code(response.error_code)
            if code is not ErrorCode.NONE:
                raise KafkaError(code, f"share group {self._group_id!r}: {response.error_message or code.name}")
        except KafkaError as error:
            return self._beat_failed(error)
        self._failures = 0
        if topics == self._topics:
            self._says_topics = False
        self._outages.ended("the heartbeat", self._connection.clock.monotonic())
        if not self.is_in:
            self._log.info("joined the group at epoch %d", response.member_epoch)
        self._epoch = int(response.member_epoch)
        assigned = assignment(response)
        if assigned is not None:
            if assigned != self.partitions or not assigned:
                self._log.info("may read %d partition(s) of the topics %s", len(assigned), ", ".join(topics))
            self.partitions = assigned
            if not assigned:
                self._connection.metadata.log_missing(topics)
        self._activity.set()
        return float(response.heartbeat_interval.total_seconds())

    def _beat_failed(self, error: KafkaError) -> float | None:
        self._says_topics = True  # the answer may have got lost with the assignment
        if error.code in LOST:
            self._log.warning("fenced: the coordinator does not know this member any more, it joins again: %s", error)
            self._epoch = JOIN_EPOCH
            return 0.001
        self._failures += 1
        pause_s = pause_between_beats(error, self._failures, self._connection)
        if pause_s is not None:
            if not isinstance(error, RequestFailed):
                self._outages.failed("the heartbeat", error, self._connection.clock.monotonic())
            return pause_s
        self._log.error("is out of the group: %s", error)
        self._epoch = JOIN_EPOCH
        self._error = error
        self._activity.set()
        return None
