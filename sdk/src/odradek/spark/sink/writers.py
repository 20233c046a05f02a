"""The sink for PySpark 4.1's Python Data Source API, streaming and batch: exactly once.

PySpark 4.1 drives a writer, micro-batch by micro-batch, like this (measured):

    driver       streamWriter(schema)            a Python process; the writer is pickled to the tasks
    executors    write(Arrow batches)            uploads; the message names them, and the query and batch of the task
    driver       commit(messages, batch id)      another Python process, another writer: only the messages connect them

The API gives a writer no query id. Spark passes it to every task as a local property, from the checkpoint's metadata,
which a restart keeps, together with the batch id. Both come back with the messages. Uploads are committed once for each
(query id, batch id), so a micro-batch that is repeated after a crash adds nothing, and neither does a replaced driver
that wakes up late.

A batch write is also one commit: all rows become visible at once, or none. The options transactionalId and batchId give
it a number (exactly_once.py: from foreachBatch).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.engine.transactions.items import PendingBatches
from odradek.errors import ErrorCode, KafkaError
from odradek.spark.sink.commit import SinkStore
from odradek.spark.sink.options import SinkOptions
from odradek.spark.sink.upload import upload_rows
from odradek.spark.workers.settle import settle
from odradek.system import SystemRng

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_BYTES = (BinaryType, StringType)
_TYPES: dict[str, tuple[type[DataType], ...]] = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": (StringType,),
    "partition": (IntegerType,),
    "timestamp": (TimestampType, TimestampNTZType),
    "headers": (ArrayType,),
}
_OF_THE_SOURCE = frozenset({"offset", "timestampType"})  # rows of the source may be written unchanged


class Uploaded(WriterCommitMessage):
    """The uploads of one task, with their micro-batch."""

    def __init__(
        self, parts: Sequence[PendingBatches], records: int, query_id: str | None, batch_id: str | None
    ) -> None:
        self.parts = parts
        self.records = records
        self.query_id = query_id
        self.batch_id = batch_id


def check_schema(schema: StructType, options: SinkOptions) -> None:
    """Raise KafkaError(INVALID_CONFIG) for columns that no record has."""
    for field in schema.fields:
        if field.name in _OF_THE_SOURCE:
            continue
        types = _TYPES.get(field.name)
        if types is None or not isinstance(field.dataType, types):
            wanted = (
                f"of type {' or '.join(data_type.typeName() for data_type in types)}" if types else "that a record has"
            )
            raise _refused(
                f"column {field.name} {field.dataType.simpleString()} is not one {wanted}: "
                f"select some of {', '.join(_TYPES)}"
            )
    names = set(schema.fieldNames())
    if "value" not in names:
        raise _refused("a column value is required")
    if "topic" not in names and not options.topic:
        raise _refused("set the option topic, or give every row a column topic")


def _write(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Uploaded:
    context = TaskContext.get()
    assert context is not None
    with SinkStore(options.store) as store:
        parts, records = upload_rows(batches, options, store, task=context.partitionId())
    settle()
    return Uploaded(parts, records, context.getLocalProperty(QUERY_ID), context.getLocalProperty(_BATCH_ID))


def _commit(options: SinkOptions, key: str, batch_id: int, messages: Sequence[WriterCommitMessage | None]) -> None:
    parts = [part for message in messages if isinstance(message, Uploaded) for part in message.parts]
    if parts:
        with SinkStore(options.store, options.bootstrap_servers) as store:
            store.commit(key, batch_id, parts)


class BatchWriter(DataSourceArrowWriter):
    """The writer of `df.write.format("odradek").mode("append")`."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        check_schema(schema, options)
        if overwrite:
            raise _refused('a topic cannot be overwritten: use mode("append")')
        self._options = options
        # Created once per write and pickled: a commit that Spark repeats finds the first one.
        self._key = options.transactional_id or f"spark-write/{SystemRng().random_bytes(16).hex()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self._options, self._key, self._options.batch_id, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: no row names the uploads, and the sweep removes them."""


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of `df.writeStream.format("odradek")`: adds rows. Spark 4.1 refuses output mode update."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_schema(schema, options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _commit(self._options, stream_key(_query_id(messages, batchId)), batchId, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: no row names the uploads, and the sweep removes them."""


def stream_key(query_id: str, name: str = "") -> str:
    """Return the key under which a query, or one of its several writers, numbers batches."""
    return f"spark/{query_id}/{name}" if name else f"spark/{query_id}"


def _query_id(messages: Sequence[WriterCommitMessage | None], batch_id: int) -> str:
    """Return the query id of all messages. Raises KafkaError: without it a repetition could add rows twice."""
    query_batches = {(message.query_id, message.batch_id) for message in messages if isinstance(message, Uploaded)}
    if not query_batches:
        return "none"
    query_id, of_batch = min(query_batches, key=str)
    if len(query_batches) > 1 or not query_id or of_batch != str(batch_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the tasks of batch {batch_id} belong to the queries {sorted(map(str, query_batches))}: use foreachBatch "
            "with odradek.spark.exactly_once",
        )
    return query_id


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
