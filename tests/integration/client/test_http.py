"""Clients over HTTP: discovery, signatures, and a network that fails."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from odradek import KafkaError, NewTopic, TopicPartition
from odradek.aio import Admin, Consumer, Producer
from odradek.errors import ErrorCode
from odradek.protocol.api import FunctionName

from tests.support.clients.in_process import Server

KEYS = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "secret"}
REGION = "eu-west-1"


class Functions:
    """Function URLs on localhost that verify signatures by making them again."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.failures: list[web.Response] = []  # answered first, to POSTs
        self.url = ""
        self.discoveries = 0

    def application(self) -> web.Application:
        application = web.Application(client_max_size=6 * 1024 * 1024)
        application.router.add_get("/.well-known/odradek", self._discover)
        application.router.add_post("/{function}/", self._call)
        return application

    async def _discover(self, request: web.Request) -> web.Response:
        self.discoveries += 1
        functions = {name.value: f"{self.url}/{name.value}/" for name in FunctionName}
        return web.json_response({"cluster_id": "test", "region": REGION, "functions": functions})

    async def _call(self, request: web.Request) -> web.Response:
        if self.failures:
            return self.failures.pop(0)
        body = await request.read()
        if not self._is_signed(request, body):
            return web.json_response({"Message": "Forbidden"}, status=403)
        assert request.content_type == "application/octet-stream"
        response = await self._server.dispatch(FunctionName(request.match_info["function"]), body)
        return web.Response(body=response, content_type="application/octet-stream")

    def _is_signed(self, request: web.Request, body: bytes) -> bool:
        authorization = request.headers.get("Authorization", "")
        if f"/{REGION}/lambda/aws4_request" not in authorization:
            return False
        signed = authorization.split("SignedHeaders=")[1].split(",")[0].split(";")
        again = AWSRequest(
            request.method, str(request.url), {name: request.headers[name] for name in signed if name != "host"}, body
        )
        again.context["timestamp"] = request.headers["X-Amz-Date"]
        auth = SigV4Auth(Credentials(KEYS["aws_access_key_id"], KEYS["aws_secret_access_key"]), "lambda", REGION)
        text = auth.string_to_sign(again, auth.canonical_request(again))
        body_matches = request.headers["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()
        return body_matches and authorization.endswith(f"Signature={auth.signature(text, again)}")


@pytest.fixture
async def functions() -> AsyncIterator[Functions]:
    served = Functions(Server())
    runner = web.AppRunner(served.application())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield served
    await runner.cleanup()


def _configs(functions: Functions, **configs: Any) -> dict[str, Any]:
    return {"bootstrap_servers": functions.url, **KEYS, "retry_backoff_ms": 1, "retry_backoff_max_ms": 5, **configs}


async def test_records_make_the_round_trip_through_signed_calls(functions: Functions) -> None:
    async with Admin(**_configs(functions)) as admin:
        await admin.create_topics([NewTopic("flights", 2)])
        assert await admin.list_topics() == ["flights"]
    big = bytes(range(256)) * 3_900  # about 1 MB of any bytes
    async with Producer(**_configs(functions)) as producer:
        await producer.send("flights", big, partition=1)
    async with Consumer(**_configs(functions, auto_offset_reset="earliest", group_id="g")) as consumer:
        consumer.subscribe(["flights"])
        records: dict[TopicPartition, Any] = {}
        while not records:
            records = await consumer.poll(1_000)
    assert [record.value for record in records[TopicPartition("flights", 1)]] == [big]
    assert functions.discoveries == 3  # once a client


async def test_failures_of_the_network_are_tried_again(functions: Functions) -> None:
    async with Admin(**_configs(functions)) as admin:
        functions.failures = [
            web.Response(status=429),
            web.json_response({"Message": "Internal Server Error"}, status=502),
            web.Response(status=503),
        ]
        await admin.create_topics([NewTopic("flights", 1)])
        assert not functions.failures
        assert await admin.list_topics() == ["flights"]


async def test_a_wrong_key_is_refused_at_once(functions: Functions) -> None:
    configs = _configs(functions) | {"aws_secret_access_key": "wrong"}
    async with Admin(**configs) as admin:
        with pytest.raises(KafkaError, match="Forbidden") as failure:
            await admin.list_topics()
    assert failure.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_an_error_document_keeps_its_kafka_name(functions: Functions) -> None:
    async with Admin(**_configs(functions)) as admin:
        functions.failures = [web.json_response({"error": "UNSUPPORTED_VERSION", "message": "too old"}, status=400)]
        with pytest.raises(KafkaError, match="too old") as failure:
            await admin.list_topics()
    assert failure.value.code is ErrorCode.UNSUPPORTED_VERSION


async def test_an_address_where_nobody_listens_fails_at_once_and_is_named() -> None:
    with socket.socket() as reserved:  # bound but not listening: refused
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        producer = Producer(bootstrap_servers=url, **KEYS)
        with pytest.raises(KafkaError, match=f"cannot connect to {url}.*check bootstrap_servers") as failure:
            await producer.start()
        await producer.close()
    assert failure.value.code is ErrorCode.BROKER_NOT_AVAILABLE


async def test_a_page_that_is_no_coordinator_is_named(functions: Functions) -> None:
    admin = Admin(**_configs(functions) | {"bootstrap_servers": f"{functions.url}/somewhere"})
    with pytest.raises(KafkaError, match=r"/somewhere/\.well-known/odradek"):
        await admin.start()
    await admin.close()
