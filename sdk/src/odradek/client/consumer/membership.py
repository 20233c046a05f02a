"""A member of a consumer group (KIP-848): heartbeats in the background, changes of the assignment at the next poll.

    OUT       not in the group: never joined, left, or lost
    JOINING   epoch 0: the next heartbeat asks to be taken in
    IN        the server gave an epoch; heartbeats keep the session alive

    OUT --join--> JOINING --answer--> IN --fenced, unknown, expelled--> OUT (lost) --poll told the listener--> JOINING

The server decides which partitions a member owns. `poll` revokes partitions in the application's thread (commit,
listener); the next heartbeat reports it, and then the server may assign them to another member. A member that does not
poll for max_poll_interval_ms leaves the group. After a lost answer the next heartbeat contains the full state.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

from odradek.client.config import ConsumerConfig
from odradek.client.connection import Connection, error_code
from odradek.client.consumer.heartbeats import LOST, new_member_id, pause_between_beats
from odradek.client.log import Outages
from odradek.client.messages.group import ConsumerGroupHeartbeatResponse, Heartbeat, assignment, heartbeat_request
from odradek.client.messages.offsets import Membership
from odradek.client.transport.base import RequestFailed
from odradek.client.waiting import wait_for
from odradek.errors import ErrorCode, KafkaError
from odradek.model.group import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from odradek.model.topic_partition import TopicPartition

_LEAVE_TIMEOUT_S = 5.0
_FIRST_INTERVAL_S = 3.0  # until the server has said its own


class GroupMember:
    """Keeps this consumer in its group.

    Args:
        activity: set when `poll` has to check for records, errors or rebalances.
    """

    def __init__(self, connection: Connection, config: ConsumerConfig, activity: asyncio.Event) -> None:
        assert config.group_id is not None
        self._connection = connection
        self._config = config
        self._group_id = config.group_id
        self._clock = connection.clock
        self._activity = activity
        self._member_id = new_member_id(connection.rng)
        self._log = connection.log
        self._log.name_client(member=self._member_id, instance=config.group_instance_id)
        self._outages = Outages(self._log)
        self._has_looked = False  # for topics of the subscription that do not exist
        self._epoch = JOIN_EPOCH
        self._is_in = False
        self._wants_in = False
        self._topics: tuple[str, ...] | None = None
        self._pattern: str | None = None
        self._owned: dict[UUID, list[int]] = {}
        self._say_all = True  # nothing is known to have reached the server
        self._say_owned = False
        self._target: dict[UUID, list[int]] | None = None
        self._lost = False
        self._error: KafkaError | None = None
        self._interval_s = _FIRST_INTERVAL_S
        self._kick = asyncio.Event()
        self._answered = asyncio.Event()
        self._polled_at_s = self._clock.monotonic()
        self._polling = 0
        self._failures = 0

    # --- the application's side -----------------------------------------------------------------------------------

    @property
    def membership(self) -> Membership:
        """The member id and epoch with which offsets are committed."""
        return Membership(self._member_id, self._epoch, self._config.group_instance_id)

    @property
    def is_in(self) -> bool:
        return self._is_in

    def subscribe(self, topics: tuple[str, ...] | None, pattern: str | None) -> None:
        """Set the topics or pattern to subscribe to, and join the group if the consumer is not a member."""
        self._topics = topics
        self._pattern = pattern
        self._wants_in = True
        self._say_all = True
        self._has_looked = False
        self._kick.set()

    def poll_begins(self) -> None:
        self._polling += 1
        self._polled_at_s = self._clock.monotonic()

    def poll_ends(self) -> None:
        self._polling -= 1
        self._polled_at_s = self._clock.monotonic()

    def raise_error(self) -> None:
        """Raise the error that ended the membership, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    @property
    def is_lost(self) -> bool:
        """True if the partitions belong to other members. Call `rejoin` after the application knows."""
        return self._lost

    def rejoin(self) -> None:
        self._lost = False
        self._epoch = JOIN_EPOCH
        self._owned = {}
        self._target = None
        self._say_all = True
        self._kick.set()

    def lose(self) -> None:
        """Leave the state IN, because the server does not know this member any more."""
        if self._is_in or not self._lost:
            self._is_in = False
            self._lost = True
            self._activity.set()

    @property
    def has_target(self) -> bool:
        return self._target is not None

    async def take_target(self) -> dict[TopicPartition, UUID]:
        """Return the partitions to own now, with their topics' ids. Raises KafkaError if names cannot be read."""
        target = self._target or {}
        metadata = self._connection.metadata
        names = {metadata.name_of(topic_id) for topic_id in target}
        if None in names:
            await metadata.refresh(self._topics)
        elif not self._has_looked and not names.issuperset(self._topics or ()):
            self._has_looked = True
            metadata.log_missing(self._topics or ())
        if self._target is target:
            self._target = None
        return {
            TopicPartition(name, partition): topic_id
            for topic_id, partitions in target.items()
            if (name := metadata.name_of(topic_id)) is not None
            for partition in partitions
        }

    def acknowledge(self, owned: dict[TopicPartition, UUID]) -> None:
        """Report the owned partitions with a heartbeat that is sent at once."""
        self._owned = {}
        for partition, topic_id in owned.items():
            self._owned.setdefault(topic_id, []).append(partition.partition)
        self._say_owned = True
        self._kick.set()

    async def wait_answer(self, seconds: float) -> None:
        """Send a heartbeat now, and wait up to `seconds` for its answer."""
        self._answered.clear()
        self._kick.set()
        await wait_for(self._answered, seconds, self._clock)

    # --- the background -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            pause_s = None
            if self._wants_in and not self._lost and self._error is None:
                if self._is_overdue():
                    await self._expel()
                else:
                    pause_s = await self._beat()
            await wait_for(self._kick, pause_s, self._clock)
            self._kick.clear()

    def _is_overdue(self) -> bool:
        idle_ms = (self._clock.monotonic() - self._polled_at_s) * 1000
        return self._is_in and not self._polling and idle_ms > self._config.max_poll_interval_ms

    async def _expel(self) -> None:
        """Leave the group because the application has stopped polling, so that others get the partitions."""
        self._log.warning(
            "leaves the group: the application has not polled for max_poll_interval_ms=%d; process fewer records a "
            "poll (max_poll_records), or raise it",
            self._config.max_poll_interval_ms,
        )
        await self._say_leave(static=False)
        self.lose()

    async def _beat(self) -> float | None:
        """Send one heartbeat; return the seconds until the next."""
        beat = self._next_heartbeat()
        said_owned = self._say_owned
        self._say_owned = False
        try:
            response = await self._connection.attempt(
                heartbeat_request(beat), ConsumerGroupHeartbeatResponse, self._config.request_timeout_ms / 1000
            )
            code = error_code(response.error_code)
            if code is not ErrorCode.NONE:
                raise KafkaError(code, f"group {self._group_id!r}: {response.error_message or code.name}")
        except KafkaError as error:
            self._say_all = True
            self._say_owned |= said_owned
            return self._beat_failed(error)
        self._failures = 0
        if (beat.topics, beat.pattern or "") == self._said():  # not where `subscribe` came in between
            self._say_all = False
        if response.member_id:
            self._member_id = response.member_id
        self._outages.ended("the heartbeat", self._clock.monotonic())
        if response.member_id:
            self._log.name_client(member=self._member_id)
        self._epoch = int(response.member_epoch)
        if not self._is_in:
            self._log.info("joined the group at epoch %d", self._epoch)
        self._is_in = True
        self._interval_s = response.heartbeat_interval.total_seconds()
        target = assignment(response)
        if target is not None:
            self._target = target
        self._activity.set()
        self._answered.set()
        to_overdue_s = self._config.max_poll_interval_ms / 1000 + self._polled_at_s - self._clock.monotonic()
        return self._interval_s if self._polling else max(0.01, min(self._interval_s, to_overdue_s))

    def _said(self) -> tuple[tuple[str, ...] | None, str | None]:
        topics = self._topics if self._topics is not None else ()
        return topics, self._pattern if self._pattern is not None else ""

    def _next_heartbeat(self) -> Heartbeat:
        if not self._say_all and self._epoch != JOIN_EPOCH:
            owned = self._owned if self._say_owned else None
            return Heartbeat(self._group_id, self._member_id, self._epoch, owned=owned)
        topics, pattern = self._said()
        return Heartbeat(
            self._group_id,
            self._member_id,
            self._epoch,
            self._config.group_instance_id,
            self._config.max_poll_interval_ms,
            topics,
            pattern if pattern or self._epoch != JOIN_EPOCH else None,
            self._config.group_remote_assignor,
            {} if self._epoch == JOIN_EPOCH else self._owned,
        )

    def _beat_failed(self, error: KafkaError) -> float | None:
        self._answered.set()
        if error.code in LOST:
            self._log.warning("fenced: the coordinator does not know this member any more, it joins again: %s", error)
            self.lose()
            return None
        self._failures += 1
        pause_s = pause_between_beats(error, self._failures, self._connection)
        if pause_s is not None:
            if not isinstance(error, RequestFailed):
                self._outages.failed("the heartbeat", error, self._clock.monotonic())
            return pause_s
        self._log.error("is out of the group: %s", error)
        self._is_in = False
        self._error = error
        self._activity.set()
        return None

    async def leave(self) -> None:
        """Leave the group, as a static member only temporarily. Errors are ignored: the session expires."""
        if self._is_in:
            await self._say_leave(static=self._config.group_instance_id is not None)
            self._log.info("left the group")
        self._is_in = False
        self._wants_in = False
        self._lost = False
        self._epoch = JOIN_EPOCH
        self._owned = {}
        self._target = None
        self._say_all = True

    async def _say_leave(self, *, static: bool) -> None:
        beat = Heartbeat(
            self._group_id,
            self._member_id,
            LEAVE_STATIC_EPOCH if static else LEAVE_EPOCH,
            self._config.group_instance_id,
        )
        try:
            await self._connection.call(
                heartbeat_request(beat),
                ConsumerGroupHeartbeatResponse,
                "leaving the group",
                timeout_ms=_LEAVE_TIMEOUT_S * 1000,
            )
        except KafkaError as error:
            self._log.warning("could not leave the group, its session expires: %s", error)


class Polling:
    """Counts the time inside poll as being alive. Without a group it does nothing."""

    def __init__(self, member: GroupMember | None) -> None:
        self._member = member

    async def __aenter__(self) -> None:
        if self._member is not None:
            self._member.poll_begins()

    async def __aexit__(self, *_: object) -> None:
        if self._member is not None:
            self._member.poll_ends()
