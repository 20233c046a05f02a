"""The server on a socket: HTTP/1.1 and HTTP/2 on one port, and clients that leave."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded
from odradek.connect.rest.access import Users
from odradek.errors import ErrorCode, KafkaError
from odradek.sql.server.app import ServerInfo
from odradek.sql.server.serving import Listening, serve_sql

from tests.support.sql_server import STREAM, World


@asynccontextmanager
async def served(listening: Listening | None = None) -> AsyncIterator[tuple[World, str]]:
    world = World()
    world.ksql(STREAM)
    try:
        async with serve_sql(world.service, ServerInfo("1", "c", "default_", "", 1), listening or Listening()) as url:
            yield world, url
    finally:
        world.service.close()


@pytest.mark.parametrize("is_http2", [False, True])
async def test_a_push_query_streams_and_ends_when_its_client_leaves(*, is_http2: bool) -> None:
    async with served() as (world, url):
        world.engine.arriving = [[("x", 1, None)]]
        body = {"sql": "SELECT * FROM s EMIT CHANGES;"}
        async with (
            httpx.AsyncClient(http1=not is_http2, http2=is_http2, timeout=60) as client,
            client.stream("POST", f"{url}/query-stream", json=body) as answer,
        ):
            assert answer.http_version == ("HTTP/2" if is_http2 else "HTTP/1.1")
            lines = answer.aiter_lines()
            assert json.loads(await anext(lines))["columnNames"] == ["ID", "A", "D"]
            assert json.loads(await anext(lines)) == ["x", 1, None]
            assert world.engine.pushing == 1
        async with asyncio.timeout(60):
            while world.engine.pushing:
                await asyncio.sleep(0.02)


async def test_a_push_query_ends_when_its_http2_stream_is_reset_and_the_connection_stays() -> None:
    async with served() as (world, url):
        world.engine.arriving = [[("x", 1, None)]]
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        protocol = H2Connection()
        protocol.initiate_connection()
        body = json.dumps({"sql": "SELECT * FROM s EMIT CHANGES;"}).encode()
        head = {":method": "POST", ":path": "/query-stream", ":scheme": "http", ":authority": "x"}
        protocol.send_headers(1, [*head.items(), ("content-length", str(len(body)))])
        protocol.send_data(1, body, end_stream=True)
        writer.write(protocol.data_to_send())
        received = b""
        while b'["x"' not in received:
            for event in protocol.receive_data(await asyncio.wait_for(reader.read(65_536), 60)):
                received += event.data if isinstance(event, DataReceived) else b""
        assert world.engine.pushing == 1
        protocol.reset_stream(1)
        writer.write(protocol.data_to_send())
        async with asyncio.timeout(60):
            while world.engine.pushing:
                await asyncio.sleep(0.02)
        protocol.send_headers(3, [(":method", "GET"), (":path", "/info"), *list(head.items())[2:]], end_stream=True)
        writer.write(protocol.data_to_send())
        while b"KsqlServerInfo" not in received:
            for event in protocol.receive_data(await asyncio.wait_for(reader.read(65_536), 60)):
                received += event.data if isinstance(event, DataReceived) else b""
        writer.close()


async def test_an_answer_before_the_end_of_its_request_leaves_the_http2_connection_as_it_is() -> None:
    """ksqlDB's Java client sends a body with GET, and rows after one that was refused."""
    async with served() as (world, url):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        protocol = H2Connection()
        protocol.initiate_connection()
        answered: dict[int, bytes] = {}
        ended: set[int] = set()

        def send(stream: int, data: bytes, *, is_last: bool, head: tuple[str, str] | None = None) -> None:
            if head is not None:
                names = (":method", ":path", ":scheme", ":authority")
                protocol.send_headers(stream, list(zip(names, (*head, "http", "x"), strict=True)))
            protocol.send_data(stream, data, end_stream=is_last)
            writer.write(protocol.data_to_send())

        async def until(done: Callable[[], bool]) -> None:
            while not done():
                found = await asyncio.wait_for(reader.read(65_536), 60)
                assert found, "the server closed the connection"
                for event in protocol.receive_data(found):
                    if isinstance(event, DataReceived):
                        answered[event.stream_id] = answered.get(event.stream_id, b"") + event.data
                    elif isinstance(event, StreamEnded):
                        ended.add(event.stream_id)

        send(1, b"{", is_last=False, head=("GET", "/info"))
        await until(lambda: b"KsqlServerInfo" in answered.get(1, b""))
        send(1, b"}", is_last=True)
        await until(lambda: 1 in ended)
        send(3, b'{"target": "s"}\n{"zip": 1}\n', is_last=False, head=("POST", "/inserts-stream"))
        await until(lambda: b"error" in answered.get(3, b""))
        send(3, b'{"id": "x"}\n', is_last=True)
        await until(lambda: 3 in ended)
        assert world.engine.documents == []
        writer.close()


async def test_rows_are_acknowledged_before_the_request_ends() -> None:
    async with served() as (world, url):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))

        def send(*lines: str) -> None:
            for line in lines:
                writer.write(b"%x\r\n%s\n\r\n" % (len(line) + 1, line.encode()))

        async def acknowledged() -> Any:
            while not (line := await asyncio.wait_for(reader.readline(), 60)).startswith(b"{"):
                assert line
            return json.loads(line)

        writer.write(b"POST /inserts-stream HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        send('{"target": "s"}', '{"id": "x"}')
        assert await acknowledged() == {"status": "ok", "seq": 0}
        send('{"id": "y"}')
        assert await acknowledged() == {"status": "ok", "seq": 1}
        writer.write(b"0\r\n\r\n")
        assert len(world.engine.documents) == 2
        writer.close()


async def test_only_users_of_the_file_may_use_a_server_that_has_one(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("ada=secret\n")
    async with served(Listening(users=Users(str(file)))) as (_, url), httpx.AsyncClient(timeout=60) as client:
        refused = await client.get(f"{url}/info")
        assert (refused.status_code, refused.json()["error_code"]) == (401, 40100)
        assert refused.headers["www-authenticate"].startswith("Basic")
        assert (await client.get(f"{url}/info", auth=("ada", "secret"))).status_code == 200
        assert (await client.get(f"{url}/info", auth=("ada", "wrong"))).status_code == 401
        assert (await client.get(f"{url}/healthcheck")).status_code == 200


async def test_a_port_that_is_taken_is_named() -> None:
    async with served() as (world, url):
        port = int(url.rpartition(":")[2])
        with pytest.raises(KafkaError, match="choose another port") as refused:
            async with serve_sql(world.service, ServerInfo("1", "c", "d", "", 1), Listening(port=port)):
                pass
        assert refused.value.code is ErrorCode.INVALID_CONFIG


async def test_tls_negotiates_http2_and_wrong_files_are_named(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    trusted = ssl.create_default_context(cafile=str(cert))
    async with served(Listening(certificate=str(cert), key=str(key))) as (_, url):
        assert url.startswith("https://")
        for is_http2 in (False, True):
            async with httpx.AsyncClient(http2=is_http2, verify=trusted, timeout=60) as client:
                answer = await client.post(f"{url}/ksql", json={"ksql": "SHOW STREAMS;"})
                assert answer.http_version == ("HTTP/2" if is_http2 else "HTTP/1.1")
                assert [each["name"] for each in answer.json()[0]["streams"]] == ["S"]
    key.write_text("no key")
    with pytest.raises(KafkaError, match="must be PEM"):
        async with served(Listening(certificate=str(cert), key=str(key))):
            pass


async def test_a_request_upgrades_to_http2_in_clear_text() -> None:
    async with served() as (_, url):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
        writer.write(b"GET /info HTTP/1.1\r\nHost: x\r\n" + upgrade + b"\r\n")
        answered = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
        assert answered.startswith(b"HTTP/1.1 101"), answered
        protocol = H2Connection()
        protocol.initiate_upgrade_connection()
        writer.write(protocol.data_to_send())
        body = b""
        while b"KsqlServerInfo" not in body:
            received = await asyncio.wait_for(reader.read(65_536), 60)
            assert received
            for event in protocol.receive_data(received):
                body += event.data if isinstance(event, DataReceived) else b""
        writer.close()
