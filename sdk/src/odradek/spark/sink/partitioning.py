"""Topic and partition of the rows of a table: the SDK's rules, column by column. Pure.

    column partition     that one
    column key           murmur2, the same partition as the SDK and Kafka's Java client choose
    neither              one partition for all such rows of a call, chosen by the caller (sticky, KIP-480)

The hash is computed over all keys of one length together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odradek.errors import ErrorCode, KafkaError
from odradek.format.key_hash import murmur2

_SEED = 0x9747B28C
_M = np.uint32(0x5BD1E995)
_KEY_BYTES_AT_ONCE = 256  # longer keys are hashed one by one: fewer, and their matrix would be large

Places = npt.NDArray[np.int64]


def murmur2_column(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """Return the hash of each key, as format.key_hash.murmur2; meaningless for a null key."""
    keys = keys.cast(pa.large_binary())
    hashes = np.zeros(len(keys), np.uint32)
    _, offsets_buffer, data_buffer = keys.buffers()
    if len(keys) == 0:
        return hashes
    offsets = np.frombuffer(offsets_buffer, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    lengths = np.diff(offsets)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        if length > _KEY_BYTES_AT_ONCE:
            for row in rows:
                hashes[row] = murmur2(data[offsets[row] : offsets[row] + length].tobytes())
        else:
            hashes[rows] = _murmur2_alike(data[offsets[rows][:, None] + np.arange(length)])
    return hashes


def _murmur2_alike(keys: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """Return the hashes of keys of one length, one per row."""
    count, length = keys.shape
    whole = length & ~3
    h = np.full(count, _SEED ^ length, np.uint32)
    words = np.ascontiguousarray(keys[:, :whole]).view("<u4").astype(np.uint32)
    for at in range(whole // 4):
        k = words[:, at] * _M
        k ^= k >> np.uint32(24)
        h = h * _M ^ k * _M
    if length > whole:
        for i in range(length - whole):
            h ^= keys[:, whole + i].astype(np.uint32) << np.uint32(8 * i)
        h = h * _M
    h ^= h >> np.uint32(13)
    h = h * _M
    return h ^ h >> np.uint32(15)


def split_by_partition(
    rows: pa.RecordBatch, default_topic: str, partition_count: Callable[[str], int], sticky: int
) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    """Yield the rows of each topic and partition, in their order.

    Args:
        rows: columns key, topic, partition, if given.
        default_topic: of rows without a topic; empty refuses them.
        partition_count: of a topic; may raise.
        sticky: chooses the partition of rows without a key, modulo the topic's partitions.

    Raises:
        KafkaError: INVALID_RECORD for a row without a topic, UNKNOWN_TOPIC_OR_PARTITION for an unknown partition.
    """
    if not rows.num_rows:
        return
    topics, topic_of = _topics(rows, default_topic)
    hashes = _hashes(rows)
    partition_column = _column(rows, "partition")
    for code, topic in enumerate(topics):
        mine = np.arange(rows.num_rows) if topic_of is None else np.flatnonzero(topic_of == code)
        count = partition_count(topic)
        numbers = _partition_numbers(mine, hashes, partition_column, topic, count, sticky)
        order = np.argsort(numbers, kind="stable")
        partitions, firsts = np.unique(numbers[order], return_index=True)
        for partition, chosen in zip(partitions, np.split(order, firsts[1:]), strict=True):
            whole = len(chosen) == rows.num_rows
            yield topic, int(partition), rows if whole else rows.take(pa.array(mine[chosen]))


def _topics(rows: pa.RecordBatch, default: str) -> tuple[list[str], Places | None]:
    """Return the topics, and the index of each row's topic (None: all rows have one topic)."""
    column = _column(rows, "topic")
    if column is not None and default:
        column = column.cast(pa.string()).fill_null(default)
    if column is None:
        if not default:
            raise _no_topic("the rows have no column topic")
        return [default], None
    if column.null_count:
        raise _no_topic("a row has no topic")
    encoded = column.cast(pa.string()).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)


def _no_topic(row_or_option: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"{row_or_option}: set the option topic, or give every row a topic")


def _hashes(rows: pa.RecordBatch) -> tuple[Places, npt.NDArray[np.bool_]] | None:
    """Return the positive hash of each key, and which rows have a key."""
    keys = _column(rows, "key")
    if keys is None:
        return None
    return (murmur2_column(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64), np.asarray(pc.is_valid(keys))


def _partition_numbers(
    mine: Places,
    hashes: tuple[Places, npt.NDArray[np.bool_]] | None,
    partition_column: pa.Array | None,
    topic: str,
    count: int,
    sticky: int,
) -> Places:
    numbers = np.full(len(mine), sticky % count, np.int64)
    if hashes is not None:
        positive, has_key = hashes
        numbers = np.where(has_key[mine], positive[mine] % count, numbers)
    if partition_column is not None:
        requested = np.asarray(partition_column.cast(pa.int64()).fill_null(-1))[mine]
        valid = np.asarray(pc.is_valid(partition_column))[mine]
        wrong = valid & ((requested < 0) | (requested >= count))
        if wrong.any():
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic!r} has partitions 0 to {count - 1}, not {requested[wrong][0]}",
            )
        numbers = np.where(valid, requested, numbers)
    return numbers


def _column(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    """Return the column, None if it is missing or contains only nulls."""
    if name not in rows.schema.names:
        return None
    column = rows.column(name)
    return None if pa.types.is_null(column.type) or column.null_count == len(column) else column
