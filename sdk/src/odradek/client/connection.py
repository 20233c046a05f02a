"""The connection that every client has: a transport, deadlines, retries, and the metadata of topics.

Metadata is cached and expires. A request for a topic that does not exist is retried for a short while only, so a
misspelt name fails within seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from odradek.protocol import kio_alone  # noqa: F401  # before kio

# isort: split
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import TopicName

from odradek.client.config import ClientConfig, kind_of
from odradek.client.log import ClientLog, Outages, Throttled
from odradek.client.process import Origin
from odradek.client.retry import RetryPolicy, retrying
from odradek.client.transport.base import RequestFailed, Transport
from odradek.errors import ErrorCode, KafkaError
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.system import SystemClock, SystemRng

if TYPE_CHECKING:
    from odradek.tracing import Tracing

R = TypeVar("R")

_CLIENT_ID = ClientConfig.__dataclass_fields__["client_id"].default
_RETRY_GRACE_S = 1.0  # a retry that helps within this time is not logged


def error_code(value: int) -> ErrorCode:
    """Return the ErrorCode of Kafka's number, UNKNOWN_SERVER_ERROR for an unknown number."""
    try:
        return ErrorCode(int(value))
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def throttle_s(response: Any) -> float:
    """Return the pause in seconds that the server asks of this client (KIP-219: the server answers at once)."""
    return max(0.0, float(response.throttle_time.total_seconds()))


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """The metadata of a topic."""

    name: str
    topic_id: UUID | None
    partition_count: int
    is_internal: bool = False
    leaders: tuple[int, ...] = ()  # the id of each partition's leader, by partition


class Connection:
    """Calls with deadlines and retries over one transport."""

    def __init__(self, config: ClientConfig, *, creates_topics: bool = False) -> None:
        self.config = config
        self.origin = Origin()
        client_kind = kind_of(type(config))
        self.log = ClientLog(
            client_kind.split()[0],
            client_kind,
            client_id=None if config.client_id == _CLIENT_ID else config.client_id,
            group=getattr(config, "group_id", None),
            transactional_id=getattr(config, "transactional_id", None),
        )
        self._unanswered = Outages(self.log)  # calls without an answer of the engine
        self._refused = Outages(self.log, grace_s=_RETRY_GRACE_S)
        self._throttled = Throttled(self.log)
        self.creates_topics = creates_topics  # where the server is set to create topics that are asked for
        self.clock: Clock = config.clock or SystemClock()
        self.rng: Rng = config.rng or SystemRng()
        self.policy = RetryPolicy(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.metadata = MetadataCache(self)
        self.logs_topics = client_kind != "admin"  # an administrator's call raises what is wrong with its topics
        self._transport = config.transport
        self._owns_transport = config.transport is None
        self._tracing: Tracing | None = None
        if config.tracing:
            from odradek.tracing import Tracing

            self._tracing = Tracing()
            if self._transport is not None:
                self._transport = self._traced(self._transport)

    def _traced(self, transport: Transport) -> Transport:
        if self._tracing is None:
            return transport
        from odradek.tracing import TracedTransport

        return TracedTransport(transport, self._tracing)

    @property
    def transport(self) -> Transport:
        if self._transport is None:
            # aiohttp and botocore are slow to import: only who speaks HTTP pays for them.
            from odradek.client.transport.http import HttpTransport

            config = self.config
            assert config.bootstrap_servers is not None
            if config.bootstrap_servers.startswith("kafka://"):
                self._transport = self._traced(_kafka_transport(config))
                return self._transport
            self._transport = self._traced(
                HttpTransport(
                    config.bootstrap_servers,
                    aws_access_key_id=config.aws_access_key_id,
                    aws_secret_access_key=config.aws_secret_access_key,
                    aws_session_token=config.aws_session_token,
                    region=config.aws_region,
                )
            )
        return self._transport

    async def connect(self) -> None:
        """Find the functions. Raises KafkaError at once where nothing listens at the address."""
        self.origin.check()

        async def attempt(timeout_s: float) -> None:
            try:
                await self.transport.connect(timeout_s)
            except RequestFailed as error:
                if error.code is ErrorCode.BROKER_NOT_AVAILABLE:
                    raise KafkaError(
                        error.code, f"{error.message}; check bootstrap_servers={self.config.bootstrap_servers!r}"
                    ) from None
                raise

        try:
            await self.retrying(attempt, f"connecting to {self.config.bootstrap_servers}")
        except BaseException as error:
            if isinstance(error, KafkaError):
                self.log.error("did not start: %s", error)
            await self.close()  # nobody closes a client that did not start
            raise

    async def attempt(self, message: Any, response_type: type[R], timeout_s: float) -> R:
        """Make one attempt of one call. Raises only KafkaError."""
        self.origin.check()
        call = type(message).__name__.removesuffix("Request")
        try:
            response = await self.transport.call(message, response_type, timeout_s, client_id=self.config.client_id)
        except RequestFailed as error:
            self._unanswered.failed(call, error, self.clock.monotonic())
            raise
        except KafkaError:
            raise
        except Exception as error:
            self.log.exception("%s failed unexpectedly", call)
            raise RequestFailed(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"{call} failed unexpectedly: {error!r}", may_have_applied=True
            ) from error
        self._unanswered.ended(call, self.clock.monotonic())
        throttle = getattr(response, "throttle_time", None)
        if throttle:
            self._throttled.paused(call, throttle.total_seconds(), self.clock.monotonic())
        return response

    async def call(
        self,
        message: Any,
        response_type: type[R],
        operation: str,
        *,
        check: Callable[[R], None] | None = None,
        timeout_ms: float | None = None,
    ) -> R:
        """Call with retries until `timeout_ms` has passed (default: default_api_timeout_ms).

        Args:
            operation: the name of the call in error messages.
            check: raises KafkaError for an answer that carries an error; a retryable one is tried again.
        """

        async def attempt(timeout_s: float) -> R:
            response = await self.attempt(message, response_type, timeout_s)
            if check is not None:
                check(response)
            return response

        return await self.retrying(attempt, operation, timeout_ms=timeout_ms)

    async def retrying(
        self, attempt: Callable[[float], Awaitable[R]], operation: str, *, timeout_ms: float | None = None
    ) -> R:
        """`retry.retrying` with this client's configuration."""
        return await retrying(
            attempt,
            operation=operation,
            timeout_ms=self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms,
            request_timeout_ms=self.config.request_timeout_ms,
            policy=self.policy,
            clock=self.clock,
            rng=self.rng,
            outages=self._refused,
        )

    async def close(self) -> None:
        """Release the transport, unless it was given, or is the parent's of this process."""
        if self.origin.is_parent:
            return
        await self.metadata.stop()
        if self._owns_transport and self._transport is not None:
            await self._transport.close()


def _kafka_transport(config: ClientConfig) -> Transport:
    """Return the transport of an address kafka://host:port."""
    from odradek.client.transport.kafka import KafkaTransport
    from odradek.client.transport.kafka_link import Security

    assert config.bootstrap_servers is not None
    with_login = config.security_protocol.startswith("SASL")
    security = Security(
        config.security_protocol.endswith("SSL"),
        config.sasl_mechanism if with_login else "",
        config.sasl_username or "",
        config.sasl_password or "",
        config.ssl_ca_location,
    )
    return KafkaTransport(config.bootstrap_servers, security, config.client_id)


class MetadataCache:
    """Topics by name and by id."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._topics: dict[str, TopicMetadata] = {}
        self._counts: dict[str, int] = {}
        self.partition_count: Callable[[str], int | None] = self._counts.get
        """Return the cached metadata of a topic however old it is, or None."""
        self._last: dict[str, TopicMetadata] = {}  # also of topics that were not found since
        self.on_growth: Callable[[str, int], None] | None = None  # called with a topic that has more partitions now
        self._names: dict[UUID, str] = {}
        self._looking: asyncio.Task[None] | None = None
        self._missing: set[str] = set()  # topics that were logged as missing
        self._read_at: dict[str, float] = {}

    def is_stale(self, topic: str) -> bool:
        read_at = self._read_at.get(topic)
        age_ms = self._connection.config.metadata_max_age_ms
        return read_at is None or (self._connection.clock.monotonic() - read_at) * 1000 >= age_ms

    def name_of(self, topic_id: UUID) -> str | None:
        return self._names.get(topic_id)

    def forget(self, topic: str) -> None:
        """Drop the cached metadata of a topic: the next use fetches it."""
        self._read_at.pop(topic, None)

    async def topic(self, topic: str, *, timeout_ms: float) -> TopicMetadata:
        """The topic's metadata. Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION) where it does not exist."""
        if not self.is_stale(topic):
            return self._topics[topic]

        async def attempt(timeout_s: float) -> TopicMetadata:
            topic_metadata = (await self._read([topic], timeout_s))[topic]
            if isinstance(topic_metadata, KafkaError):
                raise topic_metadata
            return topic_metadata

        return await self._connection.retrying(attempt, f"metadata of topic {topic}", timeout_ms=timeout_ms)

    def log_missing(self, topics: Iterable[str]) -> None:
        """Read the metadata of topics in the background, which logs those that do not exist."""
        wanted = list(topics)

        async def read() -> None:
            with suppress(KafkaError):  # logged where it failed
                await self.refresh(wanted)

        self._looking = asyncio.ensure_future(read())

    async def stop(self) -> None:
        """End what runs in the background."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def refresh(self, topics: Iterable[str] | None) -> dict[str, TopicMetadata | KafkaError]:
        """Fetch the metadata of topics (None: all). A topic that failed is mapped to its error."""

        async def attempt(timeout_s: float) -> dict[str, TopicMetadata | KafkaError]:
            return await self._read(topics, timeout_s)

        return await self._connection.retrying(attempt, "metadata")

    async def _read(self, topics: Iterable[str] | None, timeout_s: float) -> dict[str, TopicMetadata | KafkaError]:
        wanted = (
            None if topics is None else tuple(MetadataRequestTopic(topic_id=None, name=TopicName(t)) for t in topics)
        )
        request = MetadataRequest(
            topics=wanted,
            allow_auto_topic_creation=self._connection.creates_topics,
            include_topic_authorized_operations=False,
        )
        response = await self._connection.attempt(request, MetadataResponse, timeout_s)
        topics_by_name: dict[str, TopicMetadata | KafkaError] = {}
        now = self._connection.clock.monotonic()
        for topic in response.topics:
            if topic.name is None:
                continue
            name = str(topic.name)
            code = error_code(topic.error_code)
            if code is not ErrorCode.NONE:
                self._topics.pop(name, None)
                self._counts.pop(name, None)
                self._read_at.pop(name, None)
                topics_by_name[name] = error = KafkaError(code, _topic_message(code, name))
                if name not in self._missing and self._connection.logs_topics:
                    self._missing.add(name)
                    self._connection.log.warning("%s", error)
                continue
            self._missing.discard(name)
            leaders = {int(partition.partition_index): int(partition.leader_id) for partition in topic.partitions}
            topic_metadata = TopicMetadata(
                name,
                topic.topic_id,
                len(topic.partitions),
                topic.is_internal,
                tuple(leaders.get(number, -1) for number in range(len(leaders))),
            )
            topic_metadata = self._newest(topic_metadata)
            topics_by_name[name] = self._topics[name] = topic_metadata
            self._counts[name] = topic_metadata.partition_count
            self._read_at[name] = now
            if topic.topic_id is not None:
                self._names[topic.topic_id] = name
        return topics_by_name

    def _newest(self, read: TopicMetadata) -> TopicMetadata:
        """Return what was read, or what was read before where that has more partitions: a topic loses none.

        A server may answer by a copy of a topic from before it grew. Tells `on_growth`.
        """
        before = self._last.get(read.name)
        if before is not None and before.topic_id == read.topic_id and before.partition_count > read.partition_count:
            return before
        self._last[read.name] = read
        if before is not None and read.partition_count > before.partition_count:
            self._connection.log.info(
                "topic %r has %d partitions now, it had %d", read.name, read.partition_count, before.partition_count
            )
        if before is not None and read.partition_count > before.partition_count and self.on_growth is not None:
            self.on_growth(read.name, read.partition_count)
        return read


def _topic_message(code: ErrorCode, topic: str) -> str:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"topic {topic!r} does not exist: create it with Admin.create_topics or `odradek topics create`"
    if code is ErrorCode.INVALID_TOPIC_EXCEPTION:
        return f"{topic!r} is not a valid topic name: use 1 to 249 of the characters a-z A-Z 0-9 . _ -"
    return f"topic {topic!r}: {code.name}"
