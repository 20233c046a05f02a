"""Frames to a Kafka port: each request goes to the broker that answers for it, and the answers become one.

    by partition      Produce, Fetch, ListOffsets, DeleteRecords              the leader of each partition
    by group          offsets, members and descriptions of groups             the coordinator of each group
    by transaction    InitProducerId with an id, DescribeTransactions ...     the coordinator of each id
    to all            ListGroups, ListTransactions, DescribeLogDirs           every broker
    to any            metadata, topics, configurations, ACLs, users           a broker; it forwards to the controller

Leaders and coordinators are remembered until a broker says that it is not the one. The requests have the versions that
the functions take; Apache Kafka serves them all from 4.0 on, earlier releases most of them.

Source: Kafka protocol guide; KIP-590 (brokers forward to the controller), KIP-699 (coordinators in batches).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import TopicName

from odradek.client.transport.base import RequestFailed
from odradek.client.transport.kafka_link import Link, Security
from odradek.errors import ErrorCode, KafkaError
from odradek.protocol.api import ApiKey

logger = logging.getLogger(__package__)

R = TypeVar("R")

SCHEME = "kafka://"
_STALE = frozenset({3, 5, 6, 14, 15, 16, 100})  # unknown topic, no or another leader or coordinator, unknown topic id
_GROUP, _TRANSACTION = 0, 1  # kinds of coordinators


class _Places(NamedTuple):
    """Names of the fields of a request by partition, and of its answer."""

    topics: str
    topic: str
    partitions: str
    partition: str
    answer: str


_BY_PARTITION: Mapping[int, _Places] = {
    ApiKey.PRODUCE: _Places("topic_data", "name", "partition_data", "index", "responses"),
    ApiKey.FETCH: _Places("topics", "topic", "partitions", "partition", "responses"),
    ApiKey.LIST_OFFSETS: _Places("topics", "name", "partitions", "partition_index", "topics"),
    ApiKey.DELETE_RECORDS: _Places("topics", "name", "partitions", "partition_index", "topics"),
}
_BY_KEYS: Mapping[int, tuple[int, str, str]] = {  # kind of coordinator, list of the request, list of the answer
    ApiKey.OFFSET_FETCH: (_GROUP, "groups", "groups"),
    ApiKey.DESCRIBE_GROUPS: (_GROUP, "groups", "groups"),
    ApiKey.DELETE_GROUPS: (_GROUP, "groups_names", "results"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (_GROUP, "group_ids", "groups"),
    ApiKey.SHARE_GROUP_DESCRIBE: (_GROUP, "group_ids", "groups"),
    ApiKey.STREAMS_GROUP_DESCRIBE: (_GROUP, "group_ids", "groups"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (_GROUP, "groups", "groups"),
    ApiKey.DESCRIBE_TRANSACTIONS: (_TRANSACTION, "transactional_ids", "transaction_states"),
}
_TO_ALL: Mapping[int, str] = {
    ApiKey.LIST_GROUPS: "groups",
    ApiKey.LIST_TRANSACTIONS: "transaction_states",
    ApiKey.DESCRIBE_LOG_DIRS: "results",
}


def parse_servers(address: str) -> list[tuple[str, int]]:
    """Return hosts and ports of "kafka://host:port,host:port". Raises KafkaError(INVALID_CONFIG)."""
    servers = []
    for part in address.removeprefix(SCHEME).rstrip("/").split(","):
        match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:/\s]+))(?::(\d{1,5}))?", part.strip())
        if match is None or not 0 < int(match[3] or 9092) < 65_536:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{address!r} must be {SCHEME}host:port,...; not {part!r}")
        servers.append((match[1] or match[2], int(match[3] or 9092)))
    return servers


class KafkaTransport:
    """Implements Transport over the connections to a cluster's brokers."""

    def __init__(self, address: str, security: Security, client_id: str | None = None) -> None:
        self._servers = parse_servers(address)
        self._security = security
        self._client_id = client_id
        self._brokers: dict[int, tuple[str, int]] = {}
        self._leaders: dict[str, dict[int, int]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._links: dict[tuple[str, int, bool], Link] = {}
        self._connecting = asyncio.Lock()

    async def connect(self, timeout_s: float) -> None:
        """Read the brokers once. Implements Transport.connect."""
        async with self._connecting:
            if self._brokers:
                return
            failed: RequestFailed | None = None
            for host, port in self._servers:
                link = self._link(host, port)
                try:
                    await self._check_versions(link, timeout_s)
                    self._note(await link.call(_metadata(()), MetadataResponse, timeout_s))
                    return
                except RequestFailed as error:
                    if error.code is not ErrorCode.BROKER_NOT_AVAILABLE:
                        raise
                    failed = error
            assert failed is not None
            raise failed

    async def _check_versions(self, link: Link, timeout_s: float) -> None:
        """Refuse a broker that lacks what every page needs, in words. Raises RequestFailed."""
        request = ApiVersionsRequest(client_software_name="odradek", client_software_version="0.1")
        response = await link.call(request, ApiVersionsResponse, timeout_s)
        served = {
            int(api_key.api_key): (int(api_key.min_version), int(api_key.max_version)) for api_key in response.api_keys
        }
        for key, version in ((ApiKey.METADATA, 12), (ApiKey.FETCH, 12), (ApiKey.LIST_OFFSETS, 7)):
            low, high = served.get(key, (0, -1))
            if not low <= version <= high:
                raise RequestFailed(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"{link.address} does not serve version {version} of {key.name}: Apache Kafka does from 3.0 on",
                    may_have_applied=False,
                    retryable=False,
                )

    def _note(self, response: MetadataResponse) -> None:
        self._brokers = {int(broker.node_id): (str(broker.host), int(broker.port)) for broker in response.brokers}
        for topic in response.topics:
            if topic.name is not None:
                self._leaders[str(topic.name)] = {
                    int(partition.partition_index): int(partition.leader_id) for partition in topic.partitions
                }

    def _link(self, host: str, port: int, *, waits: bool = False) -> Link:
        key = (host, port, waits)
        if key not in self._links:
            self._links[key] = Link(host, port, self._security, self._client_id)
        return self._links[key]

    def _to(self, broker_id: int, *, waits: bool = False) -> Link:
        if broker_id not in self._brokers:
            raise RequestFailed(
                ErrorCode.LEADER_NOT_AVAILABLE, f"there is no broker {broker_id} now", may_have_applied=False
            )
        return self._link(*self._brokers[broker_id], waits=waits)

    def _any(self) -> Link:
        return self._to(next(iter(self._brokers)))

    async def call(self, message: Any, response_type: type[R], timeout_s: float, *, client_id: str | None = None) -> R:
        """Implement Transport.call."""
        if not self._brokers:
            await self.connect(timeout_s)
        key = int(message.__api_key__)
        try:
            if key in _BY_PARTITION:
                return await self._by_partition(message, response_type, timeout_s, _BY_PARTITION[key])
            if key in _BY_KEYS:
                return await self._by_keys(message, response_type, timeout_s, *_BY_KEYS[key])
            if key in _TO_ALL:
                return await self._to_all(message, response_type, timeout_s, _TO_ALL[key])
            coordinated = self._coordinated(message)
            if coordinated is not None:
                link = self._to(await self._coordinator(*coordinated, timeout_s))
                response = await link.call(message, response_type, timeout_s)
                if _codes(response) & _STALE:
                    self._coordinators.pop(coordinated, None)
                return response
            response = await self._any().call(message, response_type, timeout_s)
            if isinstance(response, MetadataResponse):
                self._note(response)
            return response
        except RequestFailed as error:
            if error.code in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION):
                self._forget()
            raise

    def _forget(self) -> None:
        """Ask for brokers, leaders and coordinators again: one of them is away."""
        if self._brokers:
            logger.info("asks %s for brokers, leaders and coordinators again", self._servers)
        self._brokers, self._leaders, self._coordinators = {}, {}, {}

    @staticmethod
    def _coordinated(message: Any) -> tuple[int, str] | None:
        """Return the kind and the key of the coordinator of a request for one group or one transactional id."""
        for name, key_type in (("group_id", _GROUP), ("transactional_id", _TRANSACTION)):
            value = getattr(message, name, None)
            if isinstance(value, str) and value and not hasattr(message, "topic_data"):
                return key_type, value
        return None

    async def _coordinator(self, key_type: int, key: str, timeout_s: float) -> int:
        """Return the broker that coordinates a group or a transactional id. Raises RequestFailed."""
        broker_id = self._coordinators.get((key_type, key))
        if broker_id is not None:
            return broker_id
        response = await self._any().call(
            FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,)),  # type: ignore[arg-type]
            FindCoordinatorResponse,
            timeout_s,
        )
        [coordinator] = response.coordinators
        if int(coordinator.error_code):
            code = _code(coordinator.error_code)
            raise RequestFailed(code, coordinator.error_message or f"no coordinator of {key!r}", may_have_applied=False)
        self._brokers.setdefault(int(coordinator.node_id), (str(coordinator.host), int(coordinator.port)))
        self._coordinators[(key_type, key)] = int(coordinator.node_id)
        return int(coordinator.node_id)

    # --- requests of several brokers ------------------------------------------------------------------------------

    async def _by_partition(self, message: Any, response_type: type[R], timeout_s: float, names: _Places) -> R:
        if getattr(message, "acks", None) == 0:
            raise RequestFailed(
                ErrorCode.INVALID_CONFIG, "acks=0 has no answer to wait for: use 1 or all", may_have_applied=False
            )
        topics = getattr(message, names.topics)
        wanted = [str(getattr(topic, names.topic)) for topic in topics]
        unknown = [name for name in wanted if name not in self._leaders]
        if unknown:
            self._note(await self._any().call(_metadata(unknown), MetadataResponse, timeout_s))
        shares: dict[int, list[Any]] = {}
        for topic in topics:
            leaders = self._leaders.get(str(getattr(topic, names.topic)), {})
            by_broker: dict[int, list[Any]] = {}
            for partition in getattr(topic, names.partitions):
                leader = leaders.get(int(getattr(partition, names.partition)), -1)
                # A broker that does not know the partition answers with the right error for it.
                by_broker.setdefault(leader if leader in self._brokers else next(iter(self._brokers)), []).append(
                    partition
                )
            for broker_id, partitions in by_broker.items():
                shares.setdefault(broker_id, []).append(replace(topic, **{names.partitions: tuple(partitions)}))
        waits = message.__api_key__ == ApiKey.FETCH
        answers = await _all(
            [
                self._to(broker_id, waits=waits).call(
                    replace(message, **{names.topics: tuple(part)}), response_type, timeout_s
                )
                for broker_id, part in (shares or {next(iter(self._brokers)): []}).items()
            ]
        )
        for response in answers:
            for topic in getattr(response, names.answer):
                if _codes(topic) & _STALE:
                    self._leaders.pop(str(getattr(topic, names.topic)), None)
        merged: R = _merged(answers, names.answer)
        return merged

    async def _by_keys(
        self, message: Any, response_type: type[R], timeout_s: float, key_type: int, keys_name: str, answered: str
    ) -> R:
        shares: dict[int, list[Any]] = {}
        for element in getattr(message, keys_name):
            key = str(getattr(element, "group_id", element))
            shares.setdefault(await self._coordinator(key_type, key, timeout_s), []).append(element)
        answers = await _all(
            [
                self._to(broker_id).call(replace(message, **{keys_name: tuple(part)}), response_type, timeout_s)
                for broker_id, part in (shares or {next(iter(self._brokers)): []}).items()
            ]
        )
        if any(_codes(response) & _STALE for response in answers):
            self._coordinators = {}
        merged: R = _merged(answers, answered)
        return merged

    async def _to_all(self, message: Any, response_type: type[R], timeout_s: float, answered: str) -> R:
        answers = await _all(
            [self._to(broker_id).call(message, response_type, timeout_s) for broker_id in self._brokers]
        )
        failed = next((response for response in answers if int(getattr(response, "error_code", 0))), None)
        return _merged(answers, answered) if failed is None else failed

    async def close(self) -> None:
        links, self._links = list(self._links.values()), {}
        self._brokers, self._leaders, self._coordinators = {}, {}, {}
        for link in links:
            await link.close()


def _metadata(topics: Sequence[str]) -> MetadataRequest:
    return MetadataRequest(
        topics=tuple(MetadataRequestTopic(topic_id=None, name=TopicName(topic)) for topic in topics),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


async def _all(calls: Sequence[Awaitable[R]]) -> list[R]:
    """Return all answers; after a failure the other calls end before it is raised."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]


def _merged(answers: Sequence[Any], name: str) -> Any:
    """Return the first answer with the lists of all."""
    if len(answers) == 1:
        return answers[0]
    return replace(answers[0], **{name: tuple(element for response in answers for element in getattr(response, name))})


def _codes(response: Any) -> set[int]:
    """Return the error codes of an answer and of what it lists, down to partitions."""
    codes = {int(response.error_code)} if hasattr(response, "error_code") else set()
    for name in ("groups", "topics", "partitions", "partition_responses", "results", "transaction_states"):
        for element in getattr(response, name, None) or ():
            if hasattr(element, "__dataclass_fields__"):
                codes |= _codes(element)
    return codes


def _code(value: Any) -> ErrorCode:
    try:
        return ErrorCode(int(value))
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
