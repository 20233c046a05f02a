"""The options of the sink: where the store is (as for the source), and how records are written.

    topic               where rows go that have no column `topic`, or a null in it
    compressionType     none, gzip, snappy, lz4 or zstd (the default)
    uploadBytes         Arrow bytes that a task gathers before it uploads an object, about
    bootstrapServers    the service of an embedded store, its one writer; not for store=aws
    transactionalId, batchId
                        batch writes only: add nothing if this batch id, or a later one, of this id has been added

Spark passes options of its own along (checkpointLocation, queryName), which say nothing about the store. Any other
option is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.errors import ErrorCode, KafkaError
from odradek.model.record import CompressionType
from odradek.spark.options import STORE_OPTIONS, Option, StoreOptions, known_options, parse_number, parse_store

UPLOAD_BYTES = 16 * 1024 * 1024

SINK_OPTIONS: Mapping[str, Option] = {
    "topic": Option("", "where rows go that have no column `topic`, or a null in it"),
    "compressionType": Option("zstd", "none, gzip, snappy, lz4 or zstd"),
    "uploadBytes": Option(str(UPLOAD_BYTES), "Arrow bytes that a task gathers before it uploads an object, about"),
    "bootstrapServers": Option("needed for embedded", "URL of an embedded store's service, its one writer"),
    "transactionalId": Option("", "of batch writes: whose batchId counts"),
    "batchId": Option("0", "of batch writes: nothing is added if this number, or a later one, has been added"),
    **STORE_OPTIONS,
}
_SPARKS = frozenset({"checkpointlocation", "queryname"})
_HINTS = {
    "kafka.bootstrap.servers": "the sink writes to the store directly: set the option store",
    "subscribe": "the sink's option is topic",
    "path": "name the topic by the option topic, and call save() or start() without a path",
    "checkpoint": "did you mean checkpointLocation?",
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """All options, checked; plain data that executors get too."""

    store: StoreOptions
    topic: str = ""
    compression_type: CompressionType = CompressionType.ZSTD
    upload_bytes: int = UPLOAD_BYTES
    bootstrap_servers: str = ""
    transactional_id: str = ""
    batch_id: int = 0


def parse_sink_options(given: Mapping[str, str], *, is_streaming: bool) -> SinkOptions:
    """Check the options of a writer; names in any case, as Spark has them.

    Raises KafkaError(INVALID_CONFIG) that names the option and says what it takes.
    """
    own = {name: value for name, value in given.items() if name.lower() not in _SPARKS}
    options = known_options(own, tuple(SINK_OPTIONS), _HINTS)
    store = parse_store(options)
    servers = options.get("bootstrapServers", "")
    if store.data_dir is not None and not servers:
        raise _refused("option bootstrapServers is required: the service of an embedded store is its only writer")
    if store.data_dir is None and servers:
        raise _refused(
            "option bootstrapServers is only for embedded stores: on AWS the sink writes to the store directly"
        )
    transactional_id, batch_id = options.get("transactionalId", ""), parse_number(options, "batchId", low=0)
    if bool(transactional_id) != (batch_id is not None):
        raise _refused("set both options transactionalId and batchId, or neither")
    if is_streaming and transactional_id:
        raise _refused("the checkpoint numbers the batches of a stream: omit transactionalId and batchId")
    return SinkOptions(
        store,
        topic=options.get("topic", ""),
        compression_type=_compression(options.get("compressionType", "zstd")),
        upload_bytes=parse_number(options, "uploadBytes", low=1) or UPLOAD_BYTES,
        bootstrap_servers=servers,
        transactional_id=transactional_id,
        batch_id=batch_id or 0,
    )


def _compression(name: str) -> CompressionType:
    try:
        return CompressionType[name.upper()]
    except KeyError:
        known = ", ".join(each.name.lower() for each in CompressionType)
        raise _refused(f"option compressionType must be one of {known}, not {name!r}") from None


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
