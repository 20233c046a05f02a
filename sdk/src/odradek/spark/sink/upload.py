"""Arrow batches to uploaded record batches: the work of one task of the sink. Independent of Spark.

    rows ──split_by_partition──> per partition ──about upload_bytes──> encode, compress ──> one object, meanwhile

Memory: the collected rows and one upload in progress. The result names the uploads, and the driver commits it. A task
that fails, is repeated, or runs twice because Spark speculates leaves uploads that are never committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Protocol

import pyarrow as pa

from odradek.columnar.encode import encode_from_arrow
from odradek.engine.transactions.items import PendingBatches
from odradek.model.log import ProducePartition
from odradek.spark.sink.options import SinkOptions
from odradek.spark.sink.partitioning import split_by_partition


class UploadTarget(Protocol):
    """The part of commit.SinkStore that a task needs."""

    def now_ms(self) -> int: ...

    def partition_count(self, topic: str) -> int: ...

    def upload(self, partitions: Sequence[ProducePartition]) -> Future[list[PendingBatches]]: ...


def upload_rows(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, target: UploadTarget, *, task: int
) -> tuple[list[PendingBatches], int]:
    """Upload all rows.

    Args:
        batches: columns key, value, and topic, partition, headers, timestamp if given; others are ignored.
        task: number of the task; spreads rows without a key.

    Returns:
        The uploads, in the order of the rows of each partition, and the number of rows.

    Raises:
        KafkaError, FormatError: a row or a topic cannot be written.
    """
    uploaded: list[PendingBatches] = []
    under_way: Future[list[PendingBatches]] | None = None
    gathered: dict[tuple[str, int], list[pa.RecordBatch]] = {}
    size = records = objects = 0
    for batch in batches:
        records += batch.num_rows
        for topic, partition, rows in split_by_partition(batch, options.topic, target.partition_count, task + objects):
            gathered.setdefault((topic, partition), []).append(rows)
        size += batch.nbytes
        if size >= options.upload_bytes:
            requests = _encode(gathered, options, target.now_ms())
            if under_way is not None:
                uploaded += under_way.result()
            under_way = target.upload(requests)
            gathered, size, objects = {}, 0, objects + 1
    if under_way is not None:
        uploaded += under_way.result()
    if gathered:
        uploaded += target.upload(_encode(gathered, options, target.now_ms())).result()
    return uploaded, records


def _encode(
    gathered: dict[tuple[str, int], list[pa.RecordBatch]], options: SinkOptions, now_ms: int
) -> list[ProducePartition]:
    requests = []
    for (topic, partition), rows in sorted(gathered.items()):
        batches = encode_from_arrow(
            pa.Table.from_batches(rows), default_timestamp_ms=now_ms, compression_type=options.compression_type
        )
        requests.append(ProducePartition(topic, partition, b"".join(batches)))
    return requests
