"""Produce: pass batches to the engine, and return a result per partition.

acks=0 has no response: an error ends the connection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from odradek.dispatcher.answer import to_ms
from odradek.dispatcher.context import Answer, BadFrame, Call
from odradek.errors import ErrorCode
from odradek.model.acl import AclOperation
from odradek.model.log import Buffer, ProducePartition, ProduceResult
from odradek.protocol.conditional_produce import NONE
from odradek.protocol.encode import NodeEndpoint
from odradek.protocol.produce_response import encode_produce_response

_ACKS = (-1, 0, 1)
_ABORTABLE_FROM = 11  # older clients do not know TRANSACTION_ABORTABLE
_ANNOUNCES_FROM = 12  # writing to a partition adds it to the transaction (KIP-890)
NIL = UUID(int=0)
STORE_BUSY_PAUSE_MS = 200  # throttle time for a client whose request met a throttled or unavailable store


async def handle_produce(call: Call) -> Answer:
    message = call.message
    if message.acks not in _ACKS:
        return refuse_produce(call, ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be -1, 0 or 1, not {message.acks}")
    # Kafka's timeout bounds the wait for replicas. Clients send their request timeout in it, some less than a store
    # takes; so the service's own limit counts where it is longer.
    timeout_ms = max(to_ms(message.timeout), call.engine.settings.request_timeout_ms)
    valid_until_s = call.began_s + timeout_ms / 1000
    partitions = [
        ProducePartition(
            name,
            data.index,
            b"" if data.records is None else data.records,
            topic_id,
            _condition(data, "expected_offset"),
            _condition(data, "chosen_by"),
            call.context.connection,
            valid_until_s,
        )
        for name, topic_id, topic in _topics(call)
        for data in topic.partition_data
    ]
    if message.transactional_id is None:
        results = await _permitted(call, partitions, call.append)
    elif any(partition.expected_offset is not None for partition in partitions):
        return refuse_produce(call, ErrorCode.INVALID_REQUEST, "a transaction cannot have expected offsets")
    else:
        taken = await _permitted(
            call,
            partitions,
            lambda allowed: call.engine.produce(
                allowed,
                transactional_id=message.transactional_id,
                announces=call.api_version >= _ANNOUNCES_FROM,
            ),
        )
        results = [replace(result, error=_as_produce_reports(call, result.error)) for result in taken]
    size_bytes = sum(len(partition.records) for partition in partitions)
    pause_ms = await call.engine.quotas.produced(call.context.principal, call.request.client_id, size_bytes)
    if any(result.error is ErrorCode.NOT_ENOUGH_REPLICAS for result in results):
        pause_ms = max(pause_ms, STORE_BUSY_PAUSE_MS)
    left = iter(results)
    return _answer(call, lambda name, topic_id, data: next(left), pause_ms, await _leaders(call, results))


async def _permitted(
    call: Call,
    partitions: Sequence[ProducePartition],
    produce: Callable[[Sequence[ProducePartition]], Awaitable[Sequence[ProduceResult]]],
) -> Sequence[ProduceResult]:
    """Produce to what the caller may write to, and refuse the rest, as well as partitions that are named twice."""
    counts = Counter(map(_place, partitions)) if len(partitions) > 1 else Counter()
    has_repeated = len(counts) < len(partitions) > 1
    names = await call.access.names_of(call.engine.topics, (each.topic_id for each in partitions))

    async def in_order(allowed: Sequence[ProducePartition]) -> Sequence[ProduceResult]:
        if call.arrival is not None:
            await call.arrival.turn()
            call.arrival.enter()
        if not has_repeated:
            return await produce(allowed) if allowed else ()
        once = [each for each in allowed if counts[_place(each)] == 1]
        taken = iter(await produce(once) if once else ())
        return [next(taken) if counts[_place(each)] == 1 else _repeated(each) for each in allowed]

    return await call.access.ask(
        AclOperation.WRITE,
        partitions,
        lambda each: each.topic if each.topic_id is None else names.get(each.topic_id),
        in_order,
        lambda each, code: ProduceResult(each.topic, each.partition, code, topic_id=each.topic_id),
    )


def _place(partition: ProducePartition) -> tuple[str, UUID | None, int]:
    return partition.topic, partition.topic_id, partition.partition


def _repeated(partition: ProducePartition) -> ProduceResult:
    return ProduceResult(
        partition.topic,
        partition.partition,
        ErrorCode.INVALID_REQUEST,
        message="the request names the same partition twice",
        topic_id=partition.topic_id,
    )


async def _leaders(call: Call, results: Sequence[ProduceResult]) -> list[NodeEndpoint]:
    """Return the addresses of the leaders named in the results (KIP-951)."""
    found = []
    for broker_id in sorted({r.current_leader_id for r in results if r.error is ErrorCode.NOT_LEADER_OR_FOLLOWER}):
        broker = await call.engine.broker(broker_id)
        if broker is not None:
            found.append(NodeEndpoint(broker.broker_id, broker.host, broker.port, broker.rack))
    return found


def refuse_produce(call: Call, code: ErrorCode, message: str) -> Answer:
    return _answer(
        call, lambda name, topic_id, data: ProduceResult(name, data.index, code, message=message, topic_id=topic_id)
    )


def _condition(data: Any, field: str) -> int | None:
    """Return the value of a tagged field of ours (protocol/conditional_produce.py), absent before version 9."""
    value = getattr(data, field, NONE)
    return None if value == NONE else int(value)


def _topics(call: Call) -> Iterator[tuple[str, UUID | None, Any]]:
    """Yield name, id and data of each topic: by id from version 13 on, else by name. A null id is no topic's."""
    for topic in call.message.topic_data:
        if call.api_version >= 13:
            yield "", topic.topic_id or NIL, topic
        else:
            yield topic.name, None, topic


def _answer(
    call: Call,
    result_of: Callable[[str, UUID | None, Any], ProduceResult],
    pause_ms: int = 0,
    leaders: Sequence[NodeEndpoint] = (),
) -> list[Buffer] | None:
    topics: list[tuple[str, UUID | None, Sequence[ProduceResult]]] = [
        (name, topic_id, [result_of(name, topic_id, data) for data in topic.partition_data])
        for name, topic_id, topic in _topics(call)
        if topic.partition_data
    ]
    if call.message.acks == 0:
        _close_at_an_error(call, topics)
        return None
    return encode_produce_response(
        topics,
        api_version=call.api_version,
        correlation_id=call.request.correlation_id,
        throttle_time_ms=pause_ms,
        node_endpoints=leaders,
    )


def _close_at_an_error(call: Call, topics: Sequence[tuple[str, UUID | None, Sequence[ProduceResult]]]) -> None:
    """Raise BadFrame, which ends the connection, if a partition failed: without a response nothing else tells it.

    A client that did not ask for an acknowledgement reads the metadata again when it connects again. A function's
    caller has no connection to lose.
    """
    failed = next((result for _, _, results in topics for result in results if result.error), None)
    if failed is not None and call.context.transport == "tcp":
        place = f"{failed.topic or failed.topic_id}-{failed.partition}"
        raise BadFrame(
            400, failed.error, f"a batch for {place} with acks=0 was refused: {failed.message or 'see code'}"
        )


def _as_produce_reports(call: Call, code: ErrorCode) -> ErrorCode:
    """Return a transaction's error as Produce reports it: its code for "fenced" is INVALID_PRODUCER_EPOCH (KIP-588)."""
    if code is ErrorCode.TRANSACTION_ABORTABLE and call.api_version < _ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code
