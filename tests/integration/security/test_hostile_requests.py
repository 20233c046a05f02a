"""Requests that an attacker would send to the functions: the right refusal, nothing written, nothing leaked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from odradek.errors import ErrorCode
from odradek.limits import FUNCTION_PAYLOAD_BYTES_MAX, HEADERS_PER_RECORD_MAX
from odradek.local import LocalService
from odradek.protocol.api import ApiKey

from tests.support.engine import batch
from tests.support.services.function_calls import frame
from tests.support.services.signed_http import ask, create_topic, post, produce

HOSTILE_NAMES = [
    "../../etc/passwd",
    "a/b",
    "a#b",
    "topics#x",
    "a\x00b",
    "a\nb",
    ".",
    "..",
    "",
    "x" * 250,
    "ä",
    "%2e%2e",
]


class Logged(LocalService):
    """A service that keeps what it logs."""

    lines: list[str]


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Logged]:
    lines: list[str] = []
    async with Logged(tmp_path, write_line=lines.append) as service:
        service.lines = lines  # type: ignore[attr-defined]
        await create_topic(service, "t")
        yield service  # type: ignore[misc]


def produce_frame() -> bytes:
    data = {"index": 0, "records": batch([b"forged"])}
    fields = {"acks": -1, "timeout": 10_000, "topic_data": [{"name": "t", "partition_data": [data]}]}
    return frame(ApiKey.PRODUCE, 9, fields)


async def end_offset(service: LocalService) -> int:
    [topic] = await service.engine.topics.list()
    head = await service.engine.index.read_head(topic_partition(topic))
    assert head is not None
    return head.next_offset


def topic_partition(topic: object) -> object:
    from odradek.model.topic_partition import PartitionId

    return PartitionId(topic.topic_id, 0)  # type: ignore[attr-defined]


async def test_unsigned_wrong_key_and_altered_requests_write_nothing(service: LocalService) -> None:
    url, body, own = f"{service.bootstrap_servers}/produce", produce_frame(), service.credentials
    altered = produce_frame().replace(b"forged", b"FORGED")
    assert altered != body
    for credentials, sent in (
        (None, None),
        (replace(own, secret_access_key="guess"), None),
        (replace(own, access_key_id="AKIAOTHER"), None),
        (own, altered),
    ):
        status, text, _ = await post(url, body, credentials, sent_body=sent)
        assert status == 403, text
        assert own.secret_access_key.encode() not in text
    assert await end_offset(service) == 0
    status, _, _ = await post(url, body, own)
    assert status == 200
    assert await end_offset(service) == 1


async def test_a_signature_is_for_one_function(service: LocalService) -> None:
    from tests.support.services import signed_http

    url = f"{service.bootstrap_servers}/produce"
    request = signed_http.AWSRequest(
        "POST", url, data=produce_frame(), headers={"Content-Type": "application/octet-stream"}
    )
    keys = signed_http.SigningCredentials(service.credentials.access_key_id, service.credentials.secret_access_key)
    signed_http.SigV4Auth(keys, "lambda", service.credentials.region).add_auth(request)
    async with signed_http.aiohttp.ClientSession() as session:
        for path, status in (("fetch", 403), ("produce", 200)):
            sent = session.post(
                f"{service.bootstrap_servers}/{path}", data=produce_frame(), headers=dict(request.headers.items())
            )
            async with sent as response:
                assert response.status == status


@pytest.mark.parametrize("name", HOSTILE_NAMES)
async def test_names_that_are_no_names(service: LocalService, name: str) -> None:
    fields = {"topics": [{"name": name, "num_partitions": 1, "replication_factor": -1}], "timeout": 10_000}
    [created] = (await ask(service, ApiKey.CREATE_TOPICS, 7, fields)).topics
    assert created.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    produced = await produce(service, name, batch([b"x"]))
    assert produced.error_code in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert [topic.name for topic in await service.engine.topics.list()] == ["t"]


@pytest.mark.parametrize("group", ["../g", "a#b", "g\x00", "groups", "g#x#y"])
async def test_a_groups_name_reaches_no_other_groups_offsets(service: LocalService, group: str) -> None:
    offset = {"partition_index": 0, "committed_offset": 7, "committed_metadata": None}
    commit = {"group_id": group, "topics": [{"name": "t", "partitions": [offset]}], "generation_id_or_member_epoch": -1}
    await ask(service, ApiKey.OFFSET_COMMIT, 9, commit)
    for other in ("g", "a", "x", "b"):
        fields = {"groups": [{"group_id": other, "topics": None}]}
        [response] = (await ask(service, ApiKey.OFFSET_FETCH, 8, fields)).groups
        assert response.topics == ()


async def test_bodies_beyond_the_limits_and_frames_that_lie(service: LocalService) -> None:
    url = f"{service.bootstrap_servers}/produce"
    status, _, _ = await post(url, b"\x00" * (FUNCTION_PAYLOAD_BYTES_MAX + 1), service.credentials)
    assert status == 413
    good = produce_frame()
    for wrong in (
        good[:-1],
        good[:14],
        b"\x00\x00\x00\x09" + b"\xff" * 64,  # counts far beyond the bytes
        good[:30] + b"\xff\xff\xff\xff\x0f" + good[30:],
    ):
        status, text, _ = await post(url, wrong, service.credentials)
        assert 400 <= status < 500 or status == 200, (status, text)
        assert b"Traceback" not in text
    assert await end_offset(service) == 0


async def test_records_with_more_headers_than_there_are_bytes_for(service: LocalService) -> None:
    produced = await produce(service, "t", batch([b"x"]).replace(b"x\x00", b"x\xff", 1))
    assert produced.error_code == ErrorCode.CORRUPT_MESSAGE, "the CRC says so"
    assert await end_offset(service) == 0
    assert HEADERS_PER_RECORD_MAX < 2**20


async def test_no_secret_is_logged(service: Logged) -> None:
    scram = {
        "name": "ada",
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"saltsaltsalt",
        "salted_password": b"PASSWORD" * 4,
    }
    await ask(service, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [], "upsertions": [scram]})
    await produce(service, "t", batch([b"a secret value"]))
    await post(f"{service.bootstrap_servers}/produce", b"junk", service.credentials)
    assert service.lines
    text = "\n".join(service.lines)
    for secret in (service.credentials.secret_access_key, "PASSWORD", "saltsalt", "a secret value", "Signature="):
        assert secret not in text
    assert all(json.loads(line) for line in service.lines)


async def test_metrics_are_for_this_machine_and_tell_no_names_of_others(service: LocalService) -> None:
    from tests.support.services import signed_http

    async with signed_http.aiohttp.ClientSession() as session:
        async with session.get(f"{service.bootstrap_servers}/metrics") as response:
            text = await response.text()
            assert response.status == 200
        assert "odradek_requests_total" in text
        assert service.credentials.access_key_id not in text
        # A page of another site that has its name point here is not answered.
        async with session.get(f"{service.bootstrap_servers}/metrics", headers={"Host": "evil.example"}) as response:
            assert response.status == 403
