"""Fetch: every fetch is a full fetch without a session (KIP-227 lets a broker answer session id 0).

The isolation level makes no difference: a log never contains uncommitted records. A response is limited to what the
transport can carry, minus the fields around the records. It always contains at least one batch, since a batch always
fits a function's response.

Every gateway serves every partition. A consumer that names its rack (client.rack) to a gateway of another rack is sent
to one of its own, if there is one (KIP-392).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from odradek.dispatcher.answer import to_ms
from odradek.dispatcher.context import Answer, Call
from odradek.dispatcher.records.produce import NIL, STORE_BUSY_PAUSE_MS
from odradek.errors import ErrorCode
from odradek.model.acl import AclOperation
from odradek.model.log import Buffer, FetchPartition, FetchResult
from odradek.protocol.fetch_response import TOPIC_ID_FROM, encode_fetch_response

_RESPONSE_OVERHEAD_BYTES = 64
_TOPIC_OVERHEAD_BYTES = 32  # beside the name
_PARTITION_OVERHEAD_BYTES = 64
_SESSIONS_FROM = 7


async def handle_fetch(call: Call) -> Answer:
    message = call.message
    if call.api_version >= _SESSIONS_FROM and message.session_epoch > 0:
        # The session was not opened here: the error makes the client start over with a full fetch.
        return encode_fetch_response(
            [],
            api_version=call.api_version,
            correlation_id=call.request.correlation_id,
            error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        )
    partitions = [
        FetchPartition(
            name,
            asked.partition,
            asked.fetch_offset,
            max(0, asked.partition_max_bytes),
            getattr(asked, "current_leader_epoch", -1),
            getattr(asked, "last_fetched_epoch", -1),
            topic_id,
        )
        for name, topic_id, topic in _topics(call)
        for asked in topic.partitions
    ]
    names = await call.access.names_of(call.engine.topics, (each.topic_id for each in partitions))
    results = await call.access.ask(
        AclOperation.READ,
        partitions,
        lambda each: each.topic if each.topic_id is None else names.get(each.topic_id),
        lambda allowed: _fetch(call, allowed),
        lambda each, code: FetchResult(each.topic, each.partition, code, topic_id=each.topic_id),
    )
    size_bytes = sum(result.size_bytes for result in results)
    pause_ms = await call.engine.quotas.fetched(call.context.principal, call.request.client_id, size_bytes)
    if any(result.error in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE) for result in results):
        pause_ms = max(pause_ms, STORE_BUSY_PAUSE_MS)
    answer = _answer(call, iter(results), pause_ms)
    if call.idle_polls is not None and not pause_ms and not _asks_for_a_rack(call):
        await call.idle_polls.note(call, partitions, results, answer)
    return answer


async def _fetch(call: Call, partitions: Sequence[FetchPartition]) -> list[FetchResult]:
    message = call.message
    moved = await _moved(call, partitions)
    here = [asked for asked, result in zip(partitions, moved, strict=True) if result is None]
    read: Sequence[FetchResult] = ()
    if here:
        passed_ms = int((call.engine.clock.monotonic() - call.began_s) * 1000)  # it may have waited for its rights
        max_wait_ms = max(0, min(to_ms(message.max_wait), call.engine.settings.request_timeout_ms) - passed_ms)
        read = await call.engine.fetch(
            here,
            max_wait_ms=max_wait_ms if len(here) == len(partitions) else 0,
            min_bytes=max(0, message.min_bytes),
            max_bytes=max(0, min(message.max_bytes, call.context.max_response_bytes - _overhead_bytes(call))),
        )
    results = iter(read)
    return [next(results) if result is None else result for result in moved]


async def _moved(call: Call, partitions: Sequence[FetchPartition]) -> Sequence[FetchResult | None]:
    """For each partition the answer that names a gateway of the consumer's own rack; None: it is read here."""
    if not _asks_for_a_rack(call):
        return [None] * len(partitions)
    return await call.engine.move_reads(partitions, call.message.rack_id)


def _asks_for_a_rack(call: Call) -> bool:
    """Return True if the consumer stands in another rack than this gateway."""
    rack, own = getattr(call.message, "rack_id", ""), call.cluster.broker
    return bool(rack) and own.rack is not None and rack != own.rack


def refuse_fetch(call: Call, code: ErrorCode, message: str) -> Answer:
    return _answer(
        call,
        (
            FetchResult(name, asked.partition, code, topic_id=topic_id)
            for name, topic_id, topic in _topics(call)
            for asked in topic.partitions
        ),
    )


def _topics(call: Call) -> Iterator[tuple[str, UUID | None, Any]]:
    """Yield name, id and partitions of each topic: by id from version 13 on, else by name. A null id is no topic's."""
    for topic in call.message.topics:
        if call.api_version >= TOPIC_ID_FROM:
            yield "", topic.topic_id or NIL, topic
        else:
            yield topic.topic, None, topic


def _overhead_bytes(call: Call) -> int:
    """Return an upper bound of the bytes around the records in the response."""
    return _RESPONSE_OVERHEAD_BYTES + sum(
        _TOPIC_OVERHEAD_BYTES + 3 * len(name) + _PARTITION_OVERHEAD_BYTES * len(topic.partitions)
        for name, _, topic in _topics(call)
    )


def _answer(call: Call, results: Iterator[FetchResult], pause_ms: int = 0) -> list[Buffer]:
    return encode_fetch_response(
        [(name, topic_id, [next(results) for _ in topic.partitions]) for name, topic_id, topic in _topics(call)],
        api_version=call.api_version,
        correlation_id=call.request.correlation_id,
        throttle_time_ms=pause_ms,
    )
