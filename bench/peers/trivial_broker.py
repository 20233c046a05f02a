"""A server that does nothing: produce is acknowledged unseen, a fetch is answered with one batch again and again.

What a client makes against it is what the client by itself can do. `Answers` says what the answers are; the SDK takes
it as its transport, in its own process and without a wire. Kafka's clients meet it behind a socket:

    python -m bench.peers.trivial_broker TOPIC BYTES      prints its address; ends when it is terminated
"""

from __future__ import annotations

import argparse
import asyncio
import struct
from datetime import timedelta
from typing import Any
from uuid import uuid4

from kio.schema.api_versions.v3 import response as api_versions
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12 import response as fetch
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.list_offsets.v7 import response as offsets
from kio.schema.metadata.v12 import response as metadata
from kio.schema.produce.v9 import response as produce
from kio.schema.types import BrokerId, ProducerId, TopicName
from kio.static.primitive import Records, i16, i32, i32Timedelta, i64
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import decode_request, encode_response, parse_request_header

PARTITIONS = 4
FETCH_BYTES = 900_000
VERSIONS = {  # the one version of each API that is answered
    ApiKey.PRODUCE: 9, ApiKey.FETCH: 12, ApiKey.LIST_OFFSETS: 7, ApiKey.METADATA: 12, ApiKey.API_VERSIONS: 3,
    ApiKey.INIT_PRODUCER_ID: 4,
}  # fmt: skip
_NONE, _ZERO = ErrorCode.none, i32Timedelta.parse(timedelta(0))
_END = i64(2**60)


def make_table(count: int, size: int) -> Any:
    """Rows with 8-byte keys and values of `size` bytes that do not compress to nothing."""
    import numpy as np
    import pyarrow as pa

    data = np.random.default_rng(1).integers(32, 127, count * size, dtype=np.uint8)
    ends = np.arange(0, (count + 1) * size, size, dtype=np.int64)
    values = pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(data)])
    keys = pa.array(np.arange(count) % 100_000, pa.int64()).view(pa.binary(8))
    return pa.table({"key": keys, "value": values})


class Answers:
    """The answers, to requests of one topic; also a Transport of the SDK."""

    def __init__(self, topic: str, size: int, address: tuple[str, int] = ("", 0)) -> None:
        from odradek.columnar.encode import encode_from_arrow

        self._topic = TopicName(topic)
        self._address = address
        rows = make_table(FETCH_BYTES // (size + 20), size)
        self._batch = encode_from_arrow(rows, default_timestamp_ms=0)[0]

    async def connect(self, timeout_s: float) -> None: ...

    async def close(self) -> None: ...

    async def call(self, message: Any, response_type: Any, timeout_s: float, *, client_id: str | None = None) -> Any:
        """See Transport.call."""
        return self.answer(message)

    def answer(self, message: Any) -> Any:
        """The response message to a request message."""
        return getattr(self, f"_{type(message).__name__.removesuffix('Request').lower()}")(message)

    def _apiversions(self, _: Any) -> Any:
        keys = tuple(
            api_versions.ApiVersion(api_key=i16(key), min_version=i16(version), max_version=i16(version))
            for key, version in VERSIONS.items()
        )
        return api_versions.ApiVersionsResponse(error_code=_NONE, api_keys=keys, throttle_time=_ZERO)

    def _metadata(self, _: Any) -> Any:
        host, port = self._address
        partitions = tuple(
            metadata.MetadataResponsePartition(
                error_code=_NONE, partition_index=i32(number), leader_id=BrokerId(1), leader_epoch=i32(0),
                replica_nodes=(BrokerId(1),), isr_nodes=(BrokerId(1),), offline_replicas=(),
            )
            for number in range(PARTITIONS)
        )  # fmt: skip
        topic = metadata.MetadataResponseTopic(
            error_code=_NONE, name=self._topic, topic_id=uuid4(), is_internal=False, partitions=partitions
        )
        broker = metadata.MetadataResponseBroker(node_id=BrokerId(1), host=host, port=i32(port), rack=None)
        return metadata.MetadataResponse(
            throttle_time=_ZERO, brokers=(broker,), cluster_id="x", controller_id=BrokerId(1), topics=(topic,)
        )

    def _initproducerid(self, _: Any) -> Any:
        return InitProducerIdResponse(
            throttle_time=_ZERO, error_code=_NONE, producer_id=ProducerId(1), producer_epoch=i16(0)
        )

    def _produce(self, message: Any) -> Any:
        done = tuple(
            produce.PartitionProduceResponse(
                index=part.index, error_code=_NONE, base_offset=i64(0), log_append_time=None, log_start_offset=i64(0),
                record_errors=(),
            )
            for part in message.topic_data[0].partition_data
        )  # fmt: skip
        topic = produce.TopicProduceResponse(name=self._topic, partition_responses=done)
        return produce.ProduceResponse(responses=(topic,), throttle_time=_ZERO)

    def _listoffsets(self, message: Any) -> Any:
        partitions = tuple(
            offsets.ListOffsetsPartitionResponse(
                partition_index=part.partition_index, error_code=_NONE, offset=i64(0),
                leader_epoch=i32(0),
            )
            for part in message.topics[0].partitions
        )  # fmt: skip
        topic = offsets.ListOffsetsTopicResponse(name=self._topic, partitions=partitions)
        return offsets.ListOffsetsResponse(throttle_time=_ZERO, topics=(topic,))

    def _fetch(self, message: Any) -> Any:
        """The batch with its offsets moved to where the client stands."""
        parts = []
        for part in message.topics[0].partitions if message.topics else ():
            start = int(part.fetch_offset)
            parts.append(
                fetch.PartitionData(
                    partition_index=part.partition, error_code=_NONE, high_watermark=_END, aborted_transactions=None,
                    records=Records(start.to_bytes(8, "big") + self._batch[8:]), last_stable_offset=_END,
                    log_start_offset=i64(0),
                )
            )  # fmt: skip
        topics = (fetch.FetchableTopicResponse(topic=self._topic, partitions=tuple(parts)),) if parts else ()
        return fetch.FetchResponse(throttle_time=_ZERO, error_code=_NONE, session_id=i32(0), responses=topics)


async def serve(topic: str, size: int) -> None:
    """Answer on loopback for good."""
    answers: Answers

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(length)
                header = parse_request_header(frame)
                response = answers.answer(decode_request(frame, header).message)
                parts = encode_response(response, correlation_id=header.correlation_id)
                writer.write(struct.pack(">i", sum(map(len, parts))))
                writer.writelines(parts)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(client, "127.0.0.1", 0, limit=16 * 1024 * 1024)
    address = server.sockets[0].getsockname()[:2]
    answers = Answers(topic, size, address)
    print(f"{address[0]}:{address[1]}", flush=True)
    await server.serve_forever()


def main(argv: list[str] | None = None) -> int:
    """Serve until terminated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("topic")
    parser.add_argument("bytes", type=int, help="of the value of a record that is fetched")
    arguments = parser.parse_args(argv)
    asyncio.run(serve(arguments.topic, arguments.bytes))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
