"""A broker of a hundred lines that answers a producer just enough to be given its record batches.

It knows ApiVersions, Metadata, InitProducerId and Produce, listens on 127.0.0.1, keeps the raw `records` of each
produce request and ends with its `with` block. It makes the golden bytes of librdkafka honest: they come
off a socket.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from datetime import timedelta
from io import BytesIO
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

PRODUCE, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 3, 18, 22
# Advertised only: librdkafka takes Fetch 10 as the sign that a broker knows zstd, and FindCoordinator for lz4.
FETCH, FIND_COORDINATOR = 1, 10
VERSIONS = {
    PRODUCE: (0, 9),
    FETCH: (0, 11),
    METADATA: (0, 9),
    FIND_COORDINATOR: (0, 3),
    API_VERSIONS: (0, 3),
    INIT_PRODUCER_ID: (0, 4),
}
PRODUCER_ID, PRODUCER_EPOCH = 4711, 3


class CaptureBroker:
    """Use as a context manager; `address` is for bootstrap.servers, `captured` holds the batches as they came."""

    def __init__(self) -> None:
        self.captured: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> CaptureBroker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for opened in (self._listener, *self._connections):
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()
        self._thread.join(5)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                (size,) = struct.unpack(">i", _read(connection, 4))
                response = self._answer(_read(connection, size))
                connection.sendall(struct.pack(">i", len(response)) + response)

    def _answer(self, frame: bytes) -> bytes:
        api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
        if api_key == API_VERSIONS and version > VERSIONS[API_VERSIONS][1]:
            # KIP-511: an unknown version is answered in version 0.
            return struct.pack(">ihi", correlation_id, 35, 1) + struct.pack(
                ">hhh", API_VERSIONS, *VERSIONS[API_VERSIONS]
            )
        schema = load_request_schema(api_key, version)
        _, at = entity_reader(schema.__header_schema__)(frame, 0)
        request, _ = entity_reader(schema)(frame, at)
        response_type: Any = load_response_schema(api_key, version)
        kinds = {
            name: declared for name, declared in vars(_module_of(response_type)).items() if isinstance(declared, type)
        }
        response = getattr(self, f"_answer_{api_key}")(request, response_type, kinds, version)
        out = BytesIO()
        entity_writer(response_type.__header_schema__)(
            out, response_type.__header_schema__(correlation_id=correlation_id)
        )
        entity_writer(response_type)(out, response)
        return out.getvalue()

    def _answer_18(self, request: Any, response_class: Any, kinds: dict[str, Any], version: int) -> Any:
        keys = tuple(
            kinds["ApiVersion"](api_key=key, min_version=low, max_version=high) for key, (low, high) in VERSIONS.items()
        )
        return response_class(error_code=ErrorCode.none, api_keys=keys, **_throttle(version >= 1))

    def _answer_3(self, request: Any, response_class: Any, kinds: dict[str, Any], version: int) -> Any:
        partition = kinds["MetadataResponsePartition"](
            error_code=ErrorCode.none, partition_index=0, leader_id=1, replica_nodes=(1,), isr_nodes=(1,)
        )
        topics = tuple(
            kinds["MetadataResponseTopic"](error_code=ErrorCode.none, name=topic.name, partitions=(partition,))
            for topic in request.topics or ()
        )
        broker = kinds["MetadataResponseBroker"](node_id=1, host="127.0.0.1", port=self._port)
        return response_class(brokers=(broker,), topics=topics, **_throttle(version >= 3))

    def _answer_22(self, request: Any, response_class: Any, kinds: dict[str, Any], version: int) -> Any:
        return response_class(
            error_code=ErrorCode.none, producer_id=PRODUCER_ID, producer_epoch=PRODUCER_EPOCH, **_throttle(True)
        )

    def _answer_0(self, request: Any, response_class: Any, kinds: dict[str, Any], version: int) -> Any:
        answers = []
        for topic in request.topic_data:
            parts = []
            for part in topic.partition_data:
                self.captured.append(bytes(part.records))
                extra = {"record_errors": ()} if version >= 8 else {}
                parts.append(
                    kinds["PartitionProduceResponse"](
                        index=part.index, error_code=ErrorCode.none, base_offset=0, **extra
                    )
                )
            answers.append(kinds["TopicProduceResponse"](name=topic.name, partition_responses=tuple(parts)))
        return response_class(responses=tuple(answers), **_throttle(version >= 1))


def _throttle(is_there: bool) -> dict[str, timedelta]:
    return {"throttle_time": timedelta(0)} if is_there else {}


def _module_of(message_class: type) -> Any:
    return __import__(message_class.__module__, fromlist=["_"])


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return bytes(data)
