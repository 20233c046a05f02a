"""The options of the sink: the store (as for the source), and the form of the records.

    topic               topic of rows without a column `topic`, or with a null in it
    compressionType     none, gzip, snappy, lz4 or zstd (the default)
    uploadBytes         approximate Arrow bytes that a task collects before it uploads an object
    bootstrapServers    the service of an embedded store, its only writer; not for store=aws
    transactionalId, batchId
                        batch writes only: add nothing if this batch id, or a later one, of this id has been added

Spark also passes its own options (checkpointLocation, queryName), which are ignored. Any other option is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.errors import ErrorCode, KafkaError
from odradek.model.record import CompressionType
from odradek.spark.options import STORE_OPTIONS, Option, StoreOptions, known_options, parse_number, parse_store

UPLOAD_BYTES = 16 * 1024 * 1024

SINK_OPTIONS: Mapping[str, Option] = {
    "topic": Option("", "topic of rows without a column `topic`, or with a null in it"),
    "compressionType": Option("zstd", "none, gzip, snappy, lz4 or zstd"),
    "uploadBytes": Option(
        str(UPLOAD_BYTES), "approximate Arrow bytes that a task collects before it uploads an object"
    ),
    "bootstrapServers": Option("needed for embedded", "URL of an embedded store's service, its only writer"),
    "transactionalId": Option("", "of batch writes: the writer to which batchId belongs"),
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
    """All options, validated; plain data, which executors also get."""

    store: StoreOptions
    topic: str = ""
    compression_type: CompressionType = CompressionType.ZSTD
    upload_bytes: int = UPLOAD_BYTES
    bootstrap_servers: str = ""
    transactional_id: str = ""
    batch_id: int = 0


def parse_sink_options(raw_options: Mapping[str, str], *, is_streaming: bool) -> SinkOptions:
    """Parse the options of a writer; names are case-insensitive, as in Spark.

    Raises KafkaError(INVALID_CONFIG) that names the option and its valid values.
    """
    own = {name: value for name, value in raw_options.items() if name.lower() not in _SPARKS}
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
        codec_names = ", ".join(codec.name.lower() for codec in CompressionType)
        raise _refused(f"option compressionType must be one of {codec_names}, not {name!r}") from None


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)
