"""The transaction APIs: AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn, Describe- and ListTransactions.

The error codes for "fenced" and "cannot be committed" depend on what the clients of a version understand:

    fenced          PRODUCER_FENCED from KIP-588 on; before, and in TxnOffsetCommit, INVALID_PRODUCER_EPOCH
    must be aborted TRANSACTION_ABORTABLE; in EndTxn below version 4 (KIP-1050) INVALID_PRODUCER_ID_MAPPING, after which
                    older clients abort and continue, whereas an unknown code is fatal to them; in TxnOffsetCommit below
                    version 4 INVALID_TXN_STATE
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from odradek.dispatcher.context import Answer, Call
from odradek.engine.transactions.items import PendingBatches, TransactionRow, TransactionState
from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.model.acl import AclOperation, ResourceType
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition
from odradek.protocol.numbered_commit import decode_uploaded

_FENCED_FROM = 2  # of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn
_ABORTABLE_FROM = 4  # of EndTxn
_BUMPS_FROM = 5  # of EndTxn (KIP-890)
_OFFSETS_ABORTABLE_FROM = 4  # of TxnOffsetCommit
_OFFSETS_ANNOUNCE_FROM = 5  # of TxnOffsetCommit (KIP-890)
_LONGEST_MS = -1  # no filter


async def handle_add_partitions_to_txn(call: Call) -> Answer:
    message = call.message
    partitions = [
        TopicPartition(topic.name, number) for topic in message.v3_and_below_topics for number in topic.partitions
    ]
    denied = {each for each in partitions if not call.access.may_topic(AclOperation.WRITE, each.topic)}
    if denied:  # all or nothing, as in Kafka
        return _partitions_answer(
            call,
            lambda each: ErrorCode.TOPIC_AUTHORIZATION_FAILED if each in denied else ErrorCode.OPERATION_NOT_ATTEMPTED,
        )
    found = await call.engine.transactions.add_partitions(
        message.v3_and_below_transactional_id,
        message.v3_and_below_producer_id,
        message.v3_and_below_producer_epoch,
        partitions,
    )
    return _partitions_answer(call, lambda partition: error.code if (error := found[partition]) else ErrorCode.NONE)


def refuse_add_partitions_to_txn(call: Call, code: ErrorCode, message: str) -> Answer:
    code = _known_fence(call, code)
    return _partitions_answer(call, lambda partition: code)


def _partitions_answer(call: Call, code_of: Callable[[TopicPartition], ErrorCode]) -> Answer:
    return {
        "results_by_topic_v3_and_below": [
            {
                "name": topic.name,
                "results_by_partition": [
                    {"partition_index": number, "partition_error_code": code_of(TopicPartition(topic.name, number))}
                    for number in topic.partitions
                ],
            }
            for topic in call.message.v3_and_below_topics
        ]
    }


async def handle_add_offsets_to_txn(call: Call) -> Answer:
    message = call.message
    await call.engine.transactions.add_offsets(
        message.transactional_id, message.producer_id, message.producer_epoch, message.group_id
    )
    return {}


def refuse_add_offsets_to_txn(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": _known_fence(call, code)}


async def handle_txn_offset_commit(call: Call) -> Answer:
    message = call.message
    offsets = {
        TopicPartition(topic.name, given.partition_index): OffsetAndMetadata(
            given.committed_offset, getattr(given, "committed_leader_epoch", -1), given.committed_metadata or ""
        )
        for topic in message.topics
        if call.access.may_topic(AclOperation.READ, topic.name)
        for given in topic.partitions
    }
    if message.topics and not offsets:
        return refuse_txn_offset_commit(call, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")
    results = await call.engine.transactions.commit_offsets(
        message.transactional_id,
        message.producer_id,
        message.producer_epoch,
        message.group_id,
        offsets,
        member_id=getattr(message, "member_id", ""),
        member_epoch=getattr(message, "generation_id", -1),
        instance_id=getattr(message, "group_instance_id", None),
        announces=call.api_version >= _OFFSETS_ANNOUNCE_FROM,
    )
    codes = {result.partition: result.error for result in results}
    return _offsets_answer(call, lambda partition: codes.get(partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED))


def refuse_txn_offset_commit(call: Call, code: ErrorCode, message: str) -> Answer:
    return _offsets_answer(call, lambda partition: code)


def _offsets_answer(call: Call, code_of: Callable[[TopicPartition], ErrorCode]) -> Answer:
    def known(code: ErrorCode) -> ErrorCode:
        if code is ErrorCode.TRANSACTION_ABORTABLE and call.api_version < _OFFSETS_ABORTABLE_FROM:
            return ErrorCode.INVALID_TXN_STATE
        if code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.FENCED_MEMBER_EPOCH):
            return ErrorCode.ILLEGAL_GENERATION  # the API has no member epochs
        return code

    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": given.partition_index,
                        "error_code": known(code_of(TopicPartition(topic.name, given.partition_index))),
                    }
                    for given in topic.partitions
                ],
            }
            for topic in call.message.topics
        ]
    }


async def handle_end_txn(call: Call) -> Answer:
    message = call.message
    if getattr(message, "uploaded", b""):
        return await _commit_uploaded(call)
    ended = await call.engine.transactions.end(
        message.transactional_id,
        message.producer_id,
        message.producer_epoch,
        commit=message.committed,
        bump=call.api_version >= _BUMPS_FROM,
    )
    return {"producer_id": ended.producer_id, "producer_epoch": ended.producer_epoch}


def refuse_end_txn(call: Call, code: ErrorCode, message: str) -> Answer:
    if code is ErrorCode.TRANSACTION_ABORTABLE and call.api_version < _ABORTABLE_FROM:
        code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    answer = {"error_code": _known_fence(call, code), "producer_id": -1, "producer_epoch": -1}
    return {**answer, "message": message} if getattr(call.message, "uploaded", b"") else answer


async def _commit_uploaded(call: Call) -> Answer:
    """Commit a numbered batch (protocol/numbered_commit.py)."""
    if not call.takes_uploads:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "only an embedded service commits uploads of clients: write to the store directly",
        )
    try:
        batch_id, parts = decode_uploaded(bytes(call.message.uploaded))
    except FormatError as error:
        raise KafkaError(error.code, str(error)) from None
    names = await call.access.names_of(call.engine.topics, (partition.topic_id for partition, _ in parts))
    for name in names.values():
        call.access.require(AclOperation.WRITE, ResourceType.TOPIC, name)
    uploaded = [PendingBatches(partition, entries) for partition, entries in parts]
    added = await call.engine.numbered_batches.commit_foreign(call.message.transactional_id, batch_id, uploaded)
    return {"producer_id": -1, "producer_epoch": -1, "added": int(added)}


def _known_fence(call: Call, code: ErrorCode) -> ErrorCode:
    is_unknown = code is ErrorCode.PRODUCER_FENCED and call.api_version < _FENCED_FROM
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else code


# --- describe and list ----------------------------------------------------------------------------------------------


async def handle_describe_transactions(call: Call) -> Answer:
    return {
        "transaction_states": [
            await _described(call, transactional_id) for transactional_id in call.message.transactional_ids
        ]
    }


def refuse_describe_transactions(call: Call, code: ErrorCode, message: str) -> Answer:
    return {
        "transaction_states": [_unknown(transactional_id, code) for transactional_id in call.message.transactional_ids]
    }


async def _described(call: Call, transactional_id: str) -> dict[str, Any]:
    if not transactional_id:
        return _unknown(transactional_id, ErrorCode.INVALID_REQUEST)
    if not _may_describe(call, transactional_id):
        return _unknown(transactional_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    row = await call.engine.transactions.describe(transactional_id)
    if row is None:
        return _unknown(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return {
        "transactional_id": transactional_id,
        "transaction_state": row.state.value,
        "transaction_timeout": row.timeout_ms,
        "transaction_start_time": row.start_ms,
        "producer_id": row.producer_id,
        "producer_epoch": row.producer_epoch,
        "topics": await _topics(call, row.partitions),
    }


def _may_describe(call: Call, transactional_id: str) -> bool:
    return call.access.may(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def _unknown(transactional_id: str, code: ErrorCode) -> dict[str, Any]:
    return {"transactional_id": transactional_id, "error_code": code, "transaction_start_time": 0, "producer_id": 0}


async def _topics(call: Call, partitions: Iterable[PartitionId]) -> list[dict[str, Any]]:
    """Return names and partition numbers, without deleted topics."""
    by_id: dict[Any, list[int]] = {}
    for topic_id, number in partitions:
        by_id.setdefault(topic_id, []).append(number)
    found = []
    for topic_id, numbers in by_id.items():
        topic = await call.engine.topics.get_by_id(topic_id)
        if topic is not None and call.access.may_topic(AclOperation.DESCRIBE, topic.name):
            found.append({"topic": topic.name, "partitions": sorted(numbers)})
    return sorted(found, key=lambda each: str(each["topic"]))


async def handle_list_transactions(call: Call) -> Answer:
    message = call.message
    known = {state.value for state in TransactionState}
    states, producer_ids = set(message.state_filters), set(message.producer_id_filters)
    longer_ms = getattr(message, "duration_filter", _LONGEST_MS)
    now_ms = call.engine.clock.now_ms()

    def wanted(row: TransactionRow) -> bool:
        return (
            (not states or row.state.value in states)
            and (not producer_ids or row.producer_id in producer_ids)
            and (longer_ms < 0 or (row.is_ongoing and now_ms - row.start_ms > longer_ms))
        )

    return {
        "unknown_state_filters": sorted(states - known),
        "transaction_states": [
            {
                "transactional_id": row.transactional_id,
                "producer_id": row.producer_id,
                "transaction_state": row.state.value,
            }
            for row in await call.engine.transactions.list()
            if wanted(row) and _may_describe(call, row.transactional_id)
        ],
    }


def refuse_list_transactions(call: Call, code: ErrorCode, message: str) -> Answer:
    return {"error_code": code}
