"""Probes of connections: what closes one, headers, client ids, requests in a row."""

from __future__ import annotations

import struct
from collections.abc import Callable

from tests.peers.codec import encode, encode_string
from tests.peers.connection import Connection
from tests.peers.probe import Answer, Peer, add, attempt, pick, probe
from tests.support.engine import batch

_API_VERSIONS, _METADATA, _PRODUCE = 18, 3, 0


def _header(key: int, version: int, correlation_id: int = 7, client_id: bytes = b"\0\5probe") -> bytes:
    return struct.pack(">hhi", key, version, correlation_id) + client_id


def _sent(data: bytes, *, is_frame: bool = True) -> Callable[[Peer], Answer]:
    """The answer to bytes, and whether the connection is closed then."""

    def question(peer: Peer) -> Answer:
        connection = peer.connect(answer_s=5)
        (connection.send_frame if is_frame else connection.send_bytes)(data)
        frame = attempt(connection.receive_frame)
        return [frame[4:6] if isinstance(frame, bytes) else frame, attempt(lambda: connection.is_closed(1.0))]

    return question


for _label, _frame in {
    "an empty frame": b"",
    "one byte": b"\0",
    "a key alone": b"\0\x12",
    "key and version": b"\0\x12\0\0",
    "no client id": struct.pack(">hhi", _API_VERSIONS, 0, 7),
    "half of a client id": _header(_API_VERSIONS, 0, client_id=b"\0\x0aprobe"),
    "a client id of a negative length": _header(_API_VERSIONS, 0, client_id=b"\xff\xfe"),
    "a null client id": _header(_API_VERSIONS, 0, client_id=b"\xff\xff"),
    "an empty client id": _header(_API_VERSIONS, 0, client_id=b"\0\0"),
    "a client id that is not UTF-8": _header(_API_VERSIONS, 0, client_id=b"\0\2\xff\xfe"),
    "a long client id": _header(_API_VERSIONS, 0, client_id=encode_string("c" * 32_767, is_compact=False)),
    "a client id with a line break": _header(_API_VERSIONS, 0, client_id=b"\0\3a\nb"),
    "a negative correlation id": _header(_API_VERSIONS, 0, correlation_id=-1),
    "an unknown key": _header(999, 0),
    "a negative key": _header(-1, 0),
    "a key of brokers": _header(4, 0),
    "a version too high": _header(_METADATA, 99),
    "a version too low": _header(_METADATA, -1),
    "a version that was removed": _header(_PRODUCE, 2),
    "Produce version 0": _header(_PRODUCE, 0),
    "bytes after the request": _header(_API_VERSIONS, 0) + b"more",
    "bytes after Metadata": _header(_METADATA, 1) + b"\xff\xff\xff\xff" + b"more",
    "half of Metadata": _header(_METADATA, 1) + b"\0\0",
    "Metadata with a negative count": _header(_METADATA, 1) + b"\xff\xff\xff\xfe",
    "Metadata with a count beyond its bytes": _header(_METADATA, 1) + b"\0\0\1\0",
    "Metadata with a null name": _header(_METADATA, 1) + b"\0\0\0\1\xff\xff",
    "Metadata with a name of a negative length": _header(_METADATA, 1) + b"\0\0\0\1\xff\xfe",
    "Metadata with a name that is not UTF-8": _header(_METADATA, 1) + b"\0\0\0\1\0\2\xff\xfe",
    "a header of a flexible version without tags": _header(_METADATA, 9),
    "an unknown tagged field in the header": _header(_API_VERSIONS, 3) + b"\1\x63\1x" + b"\2p\2" + b"1\0",
    "an unknown tagged field in the body": _header(_API_VERSIONS, 3) + b"\0" + b"\2p\2" + b"1\1\x63\1x",
    "a tagged field twice": _header(_API_VERSIONS, 3) + b"\0" + b"\2p\2" + b"1\2\x63\1x\x63\1x",
    "tagged fields out of order": _header(_API_VERSIONS, 3) + b"\0" + b"\2p\2" + b"1\2\x64\1x\x63\1x",
    "a boolean of 2": _header(_METADATA, 4) + b"\xff\xff\xff\xff\2",
}.items():
    add(f"connections: {_label}", _sent(_frame))
for _label, _bytes in {
    "a negative size": struct.pack(">i", -1),
    "the lowest size": struct.pack(">i", -(2**31)),
    "a size beyond the limit": struct.pack(">i", 104_857_601),
    "a request of HTTP": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
}.items():
    add(f"connections: {_label}", _sent(_bytes, is_frame=False))


@probe
def a_frame_in_pieces(peer: Peer) -> Answer:
    connection = peer.connect()
    frame = _header(_API_VERSIONS, 0)
    for byte in struct.pack(">i", len(frame)) + frame:
        connection.send_bytes(bytes([byte]))
    return connection.receive_frame()[:6]


@probe
def two_frames_at_once(peer: Peer) -> Answer:
    connection = peer.connect()
    frames = [_header(_API_VERSIONS, 0, correlation_id=number) for number in (1, 2, 3)]
    connection.send_bytes(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
    return [connection.receive_frame()[:6] for _ in frames]


@probe
def requests_in_a_row_are_answered_in_order(peer: Peer) -> Answer:
    connection = peer.connect()
    first = connection.send("Metadata", 9, {"Topics": None})
    second = connection.send("ApiVersions", 0, {})
    third = connection.send("FindCoordinator", 3, {"Key": "g", "KeyType": 0})
    connection.receive("Metadata", 9, first)
    connection.receive("ApiVersions", 0, second)
    return pick(connection.receive("FindCoordinator", 3, third), "ErrorCode")


@probe
def a_bad_frame_after_a_good_one(peer: Peer) -> Answer:
    connection = peer.connect()
    connection.send("ApiVersions", 0, {})
    connection.send_frame(_header(999, 0))
    return [len(connection.receive_frame()) > 0, attempt(lambda: connection.is_closed(5.0))]


# --- acks=0 -----------------------------------------------------------------------------------------------------------


def _unacknowledged(peer: Peer, topic: str, records: bytes | None) -> Connection:
    connection = peer.connect()
    partition = {"Index": 0, "Records": records}
    values = {"Acks": 0, "TimeoutMs": 1000, "TopicData": [{"Name": topic, "PartitionData": [partition]}]}
    connection.send_body("Produce", 9, encode(peer.schemas.request("Produce"), 9, values))
    return connection


@probe
def produce_unacknowledged_to_a_missing_topic(peer: Peer) -> Answer:
    connection = _unacknowledged(peer, peer.name("missing"), b"")
    return attempt(lambda: pick(connection.call("Metadata", 9, Topics=[]), "ControllerId"))


@probe
def produce_unacknowledged_nonsense(peer: Peer) -> Answer:
    connection = _unacknowledged(peer, peer.topic(), b"nonsense")
    return attempt(lambda: pick(connection.call("Metadata", 9, Topics=[]), "ControllerId"))


@probe
def produce_unacknowledged_without_a_right(peer: Peer) -> Answer:
    connection = peer.login()
    partition = {"Index": 0, "Records": b""}
    values = {"Acks": 0, "TimeoutMs": 1000, "TopicData": [{"Name": peer.topic(), "PartitionData": [partition]}]}
    connection.send_body("Produce", 9, encode(peer.schemas.request("Produce"), 9, values))
    return attempt(lambda: pick(connection.call("Metadata", 9, Topics=[]), "ControllerId"))


@probe
def produce_unacknowledged_nothing(peer: Peer) -> Answer:
    connection = peer.connect()
    connection.send("Produce", 9, {"Acks": 0, "TimeoutMs": 1000, "TopicData": []})
    return attempt(lambda: pick(connection.call("Metadata", 9, Topics=[]), "ControllerId"))


@probe
def produce_with_acks_2(peer: Peer) -> Answer:
    topic = {"Name": peer.topic(), "PartitionData": [{"Index": 0, "Records": batch([b"value"])}]}
    return peer.attempt("Produce", 9, Acks=2, TimeoutMs=1000, TopicData=[topic])
