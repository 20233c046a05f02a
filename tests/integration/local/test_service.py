"""The embedded service over HTTP: what a client sees of it, signed and unsigned, within the limits and beyond."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from odradek.errors import ErrorCode, KafkaError
from odradek.format.record_batch import decode_batches
from odradek.gateway import Listener
from odradek.http.listening import listening_socket
from odradek.limits import FUNCTION_BINARY_BYTES_MAX, FUNCTION_PAYLOAD_BYTES_MAX
from odradek.local import FunctionLimits, LocalService
from odradek.local.server import FunctionUrlServer
from odradek.protocol.api import ApiKey, FunctionName
from odradek.settings import Settings
from odradek.system import SystemClock

from tests.support.engine import batch
from tests.support.kafka import port
from tests.support.services.function_calls import decode, frame
from tests.support.services.signed_http import create_topic, fetch, post, produce


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[LocalService]:
    async with LocalService(tmp_path / "data", synchronous="NORMAL") as started:
        yield started


async def test_create_produce_fetch(service: LocalService) -> None:
    await create_topic(service, "t")
    values: list[bytes | None] = [b"", None, b"x" * 1_000_000]
    assert (await produce(service, "t", batch(values))).base_offset == 0
    response = await fetch(service, "t", 0)
    assert response.high_watermark == 3
    assert [r.value for r in decode_batches(bytes(response.records), allow_truncated=False)] == values


async def test_discovery_tells_addresses_on_the_host_that_was_called(service: LocalService) -> None:
    url = f"{service.bootstrap_servers}/.well-known/odradek"
    status, body, headers = await post(url, b"", service.credentials, method="GET")
    assert status == 200
    assert headers["content-type"] == "application/json"
    document = json.loads(body)
    assert document["cluster_id"] == service.settings.cluster_id
    assert document["functions"] == {name.value: f"{service.bootstrap_servers}/{name.value}" for name in FunctionName}


@pytest.mark.parametrize("path", ["/produce", "/.well-known/odradek", "/admin"])
async def test_unsigned_requests_are_refused(service: LocalService, path: str) -> None:
    status, body, headers = await post(service.bootstrap_servers + path, b"x", None)
    assert status == 403
    assert list(json.loads(body)) == ["Message"]
    assert headers["x-amzn-errortype"] == "AccessDeniedException"


async def test_wrong_key_wrong_secret_and_altered_body_leave_no_trace(service: LocalService) -> None:
    await create_topic(service, "t")
    records = {"index": 0, "records": batch([b"v"])}
    fields = {"acks": -1, "timeout": 1000, "topic_data": [{"name": "t", "partition_data": [records]}]}
    request, url = frame(ApiKey.PRODUCE, 9, fields), f"{service.bootstrap_servers}/produce"
    right = service.credentials
    for credentials in (replace(right, access_key_id="AK"), replace(right, secret_access_key="wrong")):
        assert (await post(url, request, credentials))[0] == 403
    assert (await post(url, b"something else", right, sent_body=request))[0] == 403
    assert (await fetch(service, "t", 0)).high_watermark == 0


async def test_any_region_may_be_signed_for(service: LocalService) -> None:
    credentials = replace(service.credentials, region="ap-south-1")
    url = f"{service.bootstrap_servers}/.well-known/odradek"
    assert (await post(url, b"", credentials, method="GET"))[0] == 200


@pytest.mark.parametrize(
    ("size", "status"),
    [
        (FUNCTION_BINARY_BYTES_MAX, 400),  # fits, and is no frame
        (FUNCTION_BINARY_BYTES_MAX + 3, 413),  # refused by the function
        (FUNCTION_PAYLOAD_BYTES_MAX - 10, 413),  # refused by Lambda: the event is too large
        (FUNCTION_PAYLOAD_BYTES_MAX + 10, 413),
    ],
)
async def test_payload_limits(service: LocalService, size: int, status: int) -> None:
    response = await post(f"{service.bootstrap_servers}/produce", bytes(size), service.credentials)
    # An all-zero body is a Produce request of version 0, which nobody serves.
    assert response[0] == status, response[1]


@pytest.mark.parametrize(
    ("method", "path", "body", "content_type", "status"),
    [
        ("POST", "/nowhere", b"x", "application/octet-stream", 404),
        ("POST", "/produce/deeper", b"x", "application/octet-stream", 404),
        ("GET", "/produce", b"", "application/octet-stream", 404),
        ("PUT", "/produce", b"x", "application/octet-stream", 405),
        ("POST", "/produce", b"", "application/octet-stream", 400),
        ("POST", "/produce", b"\xff\xff", "application/octet-stream", 400),
        ("POST", "/produce", b'{"json": true}', "application/json", 400),
    ],
)
async def test_bad_requests_are_4xx(
    service: LocalService, method: str, path: str, body: bytes, content_type: str, status: int
) -> None:
    url = service.bootstrap_servers + path
    response = await post(url, body, service.credentials, method=method, content_type=content_type)
    assert response[0] == status, response[1]
    assert b"Traceback" not in response[1]


async def test_what_is_not_even_http_is_answered_and_survived(service: LocalService) -> None:
    host, port = service.bootstrap_servers.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"\x00\x00\x00\x10\x00\x12\x00\x03 a Kafka client on the wrong port\r\n\r\n")
    assert (await reader.read(12)).startswith(b"HTTP/1.")
    writer.close()
    await create_topic(service, "t")


async def test_a_long_poll_holds_no_thread(service: LocalService) -> None:
    await create_topic(service, "t")
    await fetch(service, "t", 0)
    threads = threading.active_count()
    polls = [asyncio.create_task(fetch(service, "t", 0, max_wait_ms=20_000)) for _ in range(100)]
    await asyncio.sleep(0.5)
    assert threading.active_count() < threads + 50
    await produce(service, "t", batch([b"wakes them all"]))
    assert {response.high_watermark for response in await asyncio.gather(*polls)} == {1}


async def test_the_meter_counts_requests_time_and_bytes(service: LocalService) -> None:
    before = service.meter.total.usage
    await create_topic(service, "t")
    await produce(service, "t", batch([b"x" * 50_000]))
    usage = service.meter.total.usage - before
    assert usage.function_requests == 2
    assert usage.function_gb_seconds > 0
    assert usage.payload_bytes_in > 50_000
    assert usage.object_put_requests == 1
    assert usage.table_write_units >= 2


@pytest.mark.parametrize("by", ["functions", "kafka"])
async def test_what_is_written_is_billed_in_the_metrics_and_in_the_log(tmp_path: Path, by: str) -> None:
    lines: list[dict[str, Any]] = []
    kafka = Listener("127.0.0.1", 0) if by == "kafka" else None
    options = {"synchronous": "NORMAL", "kafka": kafka, "write_line": lambda line: lines.append(json.loads(line))}
    async with LocalService(tmp_path / "data", **options) as service:  # type: ignore[arg-type]
        await create_topic(service, "t")
        before = await billed_write_units(service)
        for number in range(3):
            if by == "functions":
                await produce(service, "t", batch([b"%d" % number]))
            else:
                servers = service.kafka_bootstrap_servers
                await asyncio.to_thread(port.confluent_produce, servers, "t", [port.Message(b"k", b"v")])
        # Each append updates a head and writes an item: at least two units.
        assert await billed_write_units(service) - before >= 6
    appends = [line for line in lines if line.get("api") == "PRODUCE"]
    assert len(appends) == (3 if by == "functions" else 0)
    assert all(line["table_write_units"] >= 2 for line in appends)


async def billed_write_units(service: LocalService) -> float:
    """Return the write units of GET /metrics."""
    async with ClientSession() as session, session.get(f"{service.bootstrap_servers}/metrics") as response:
        text = await response.text()
    [units] = re.findall(r'^odradek_billable_total{unit="table_write_units"} (\S+)$', text, re.M)
    return float(units)


async def test_in_process_dispatch_is_the_same_service(service: LocalService) -> None:
    await create_topic(service, "t")
    fields = {"topics": [{"name": "t", "topic_id": None}], "allow_auto_topic_creation": False}
    body = await service.dispatch(FunctionName.COORDINATOR, frame(ApiKey.METADATA, 12, fields))
    [topic] = decode(body, ApiKey.METADATA, 12).topics
    assert (topic.name, len(topic.partitions)) == ("t", 1)
    with pytest.raises(KafkaError):
        await service.dispatch(FunctionName.PRODUCE, frame(ApiKey.METADATA, 12, fields))


async def test_a_second_service_on_the_same_data_is_told_so(service: LocalService) -> None:
    with pytest.raises(KafkaError, match="in use") as refused:
        await LocalService(service.data_dir).start()
    assert refused.value.code is ErrorCode.INVALID_CONFIG


async def test_a_taken_port_is_a_clear_error_and_leaves_nothing_open(service: LocalService, tmp_path: Path) -> None:
    port = int(service.bootstrap_servers.rpartition(":")[2])
    with pytest.raises(KafkaError, match="choose another"):
        await LocalService(tmp_path / "other", port=port).start()
    async with LocalService(tmp_path / "other"):  # its lock was released
        pass


class Stuck:
    """A function that never answers, or answers nonsense."""

    def __init__(self, response: Any = None) -> None:
        self._answer = response

    async def handle(self, event: Any, context: Any) -> Any:
        if self._answer is None:
            await asyncio.Event().wait()
        return self._answer


async def lambda_answer(function: Stuck, service: LocalService) -> tuple[int, dict[str, str]]:
    """Return the client's response from such a function."""
    key, limits = service.credentials.signing_key(), FunctionLimits(timeout_s=0.05)
    server = FunctionUrlServer(
        {FunctionName.PRODUCE: function},  # type: ignore[dict-item]
        key=key,
        clock=SystemClock(),
        limits=limits,
    )
    listener = listening_socket("127.0.0.1", 0)
    await server.start(listener)
    try:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/produce"
        status, body, _ = await post(url, b"x", service.credentials)
    finally:
        await server.stop()
    return status, json.loads(body)


async def test_lambdas_own_errors(service: LocalService) -> None:
    status, document = await lambda_answer(Stuck(), service)
    assert (status, document) == (504, {"Message": "Task timed out after 0.05 seconds"})
    status, document = await lambda_answer(Stuck({"no": "status"}), service)
    assert (status, document) == (502, {"Message": "Internal Server Error"})
    huge = {"statusCode": 200, "body": "A" * FUNCTION_PAYLOAD_BYTES_MAX, "isBase64Encoded": True}
    status, document = await lambda_answer(Stuck(huge), service)
    assert status == 502
    assert document["Message"].startswith("Response payload size exceeded")


async def test_maintenance_runs_in_the_background_and_ends_with_the_service(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []
    swept = asyncio.Event()

    def write_line(line: str) -> None:
        lines.append(json.loads(line))
        if "sweeps" in lines[-1]:
            swept.set()

    settings = Settings(maintenance_interval_ms=10)
    async with LocalService(tmp_path, settings=settings, write_line=write_line, synchronous="NORMAL") as service:
        await create_topic(service, "t")
        await produce(service, "t", batch([b"x"]))
        await asyncio.wait_for(swept.wait(), 60)
        assert (await fetch(service, "t", 0)).high_watermark == 1
        before = asyncio.all_tasks()
    assert [line for line in lines if line.get("finished") and not line["failures"]]
    assert all(task.done() for task in before if task is not asyncio.current_task())


async def test_an_interval_of_zero_runs_no_maintenance(tmp_path: Path) -> None:
    before = len(asyncio.all_tasks())
    settings = [Settings(maintenance_interval_ms=0), Settings(maintenance_interval_ms=60_000)]
    tasks = []
    for one_setting in settings:
        async with LocalService(tmp_path, settings=one_setting, synchronous="NORMAL"):
            tasks.append(len(asyncio.all_tasks()) - before)
    assert tasks[1] == tasks[0] + 1
