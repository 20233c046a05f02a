"""MQTT brokers for tests: a small one in this process that keeps sessions, and Mosquitto from Debian's packages.

The small one knows MQTT 3.1.1 with QoS 0 and 1: sessions with their subscriptions, messages for absent clients, and
delivery of what was not acknowledged, with the flag DUP, when a client comes back. Source: OASIS MQTT 3.1.1.
"""

from __future__ import annotations

import shutil
import socket
import socketserver
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, PINGREQ, PINGRESP, DISCONNECT = 1, 2, 3, 4, 8, 9, 12, 13, 14
PASSWORD = "secret"
_PACKAGES = ("mosquitto", "libcjson1", "libdlt2", "libev4", "libwebsockets17", "libwrap0", "libmosquitto1")


@dataclass
class _Session:
    """The state of a client, connected or not."""

    filters: dict[str, int] = field(default_factory=dict)
    unacknowledged: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    sent: set[int] = field(default_factory=set)
    connection: Any = None
    last_id: int = 0


class Broker:
    """Sessions by client id.

    Attributes:
        acknowledged: number of PUBACKs of subscribers.
    """

    def __init__(self) -> None:
        self.sessions: dict[str, _Session] = {}
        self.acknowledged = 0
        self.lock = threading.RLock()

    @contextmanager
    def running(self) -> Iterator[str]:
        broker = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                broker._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True

        with Server(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield f"tcp://127.0.0.1:{server.server_address[1]}"
            finally:
                self.drop_connections()
                server.shutdown()
                thread.join()

    def drop_connections(self) -> None:
        """Break all connections, as a network does."""
        with self.lock:
            for session in self.sessions.values():
                if session.connection is not None:
                    session.connection.shutdown(socket.SHUT_RDWR)

    def publish(self, topic: str, payload: bytes) -> None:
        """Hand a message to all sessions that have subscribed to it, with QoS 1."""
        with self.lock:
            for session in self.sessions.values():
                if any(_matches(each, topic) for each in session.filters):
                    session.last_id += 1
                    session.unacknowledged[session.last_id] = topic, payload
                    if session.connection is not None:
                        self._deliver(session, session.last_id)

    def _deliver(self, session: _Session, number: int) -> None:
        topic, payload = session.unacknowledged[number]
        flags = 0b0010 | (0b1000 if number in session.sent else 0)
        session.sent.add(number)
        _send(session.connection, PUBLISH, _text(topic) + struct.pack(">H", number) + payload, flags)

    def _serve(self, connection: Any) -> None:
        session: _Session | None = None
        try:
            while True:
                kind, body = _packet(connection)
                with self.lock:
                    if kind == CONNECT:
                        session = self._connected(connection, body)
                    elif session is None or kind == DISCONNECT:
                        return
                    else:
                        self._handle(session, kind, body)
        except (OSError, EOFError):
            return
        finally:
            with self.lock:
                if session is not None and session.connection is connection:
                    session.connection = None

    def _connected(self, connection: Any, body: bytes) -> _Session | None:
        flags, rest = body[7], body[10:]
        client, rest = _read_text(rest)
        if flags & 0x80:
            _, rest = _read_text(rest)
            password, rest = _read_text(rest)
            if password != PASSWORD:
                _send(connection, CONNACK, b"\x00\x05")  # not authorized
                return None
        if flags & 0x02:  # clean session
            self.sessions.pop(client, None)
        is_present = client in self.sessions
        session = self.sessions.setdefault(client, _Session())
        session.connection = connection
        _send(connection, CONNACK, bytes([is_present, 0]))
        for number in list(session.unacknowledged):
            self._deliver(session, number)
        return session

    def _handle(self, session: _Session, kind: int, body: bytes) -> None:
        if kind == SUBSCRIBE:
            rest, granted = body[2:], []
            while rest:
                name, rest = _read_text(rest)
                session.filters[name] = min(rest[0], 1)
                granted.append(0x80 if name.startswith("forbidden") else session.filters[name])
                rest = rest[1:]
            _send(session.connection, SUBACK, body[:2] + bytes(granted))
        elif kind == PUBACK:
            [number] = struct.unpack(">H", body[:2])
            session.unacknowledged.pop(number, None)
            self.acknowledged += 1
        elif kind == PINGREQ:
            _send(session.connection, PINGRESP, b"")


def _matches(pattern: str, topic: str) -> bool:
    wanted, levels = pattern.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted, levels = wanted[:-1], levels[: len(wanted) - 1]
    return len(wanted) == len(levels) and all(one in ("+", other) for one, other in zip(wanted, levels, strict=True))


def _text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def _read_text(data: bytes) -> tuple[str, bytes]:
    [size] = struct.unpack(">H", data[:2])
    return data[2 : 2 + size].decode(), data[2 + size :]


def _packet(connection: Any) -> tuple[int, bytes]:
    first = _exactly(connection, 1)[0]
    size = shift = 0
    while True:
        byte = _exactly(connection, 1)[0]
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return first >> 4, _exactly(connection, size)


def _exactly(connection: Any, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _send(connection: Any, kind: int, body: bytes, flags: int = 0) -> None:
    size, length = len(body), b""
    while True:
        size, byte = size >> 7, size & 0x7F
        length += bytes([byte | (0x80 if size else 0)])
        if not size:
            break
    connection.sendall(bytes([kind << 4 | flags]) + length + body)


# --- Mosquitto --------------------------------------------------------------------------------------------------------


def find_mosquitto(folder: Path) -> tuple[str, dict[str, str]] | None:
    """Return the program and its environment: the installed one, or Debian's packages unpacked into a folder."""
    installed = shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")
    if installed:
        return installed, {}
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        return None
    if subprocess.run(["apt-get", "download", *_PACKAGES], cwd=folder, capture_output=True, check=False).returncode:
        return None
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(folder / "root")], check=True)
    libraries = ":".join(str(each) for each in (folder / "root/usr/lib").glob("*-linux-gnu"))
    return str(folder / "root/usr/sbin/mosquitto"), {"LD_LIBRARY_PATH": libraries}


@contextmanager
def mosquitto(folder: Path, found: tuple[str, dict[str, str]]) -> Iterator[str]:
    """Run Mosquitto, and yield its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = folder / "mosquitto.conf"
    settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nuser root\n")
    program, environment = found
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen([program, "-c", str(settings)], env=environment or None, stderr=subprocess.DEVNULL)
        )
        stack.callback(process.terminate)
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            threading.Event().wait(0.1)
        yield f"tcp://127.0.0.1:{port}"
