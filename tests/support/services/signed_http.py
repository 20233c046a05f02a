"""HTTP requests to an embedded service, signed by botocore, with everything that a test may want to get wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as SigningCredentials
from odradek.local import Credentials
from odradek.protocol.api import ApiKey, owner_of
from yarl import URL

from tests.support.services.function_calls import decode, frame


async def post(
    url: str,
    body: bytes,
    credentials: Credentials | None,
    *,
    method: str = "POST",
    sent_body: bytes | None = None,
    content_type: str = "application/octet-stream",
) -> tuple[int, bytes, Mapping[str, str]]:
    """Send a request; `credentials` None leaves it unsigned, `sent_body` is sent in place of what was signed."""
    request = AWSRequest(method, url, data=body, headers={"Content-Type": content_type})
    if credentials is not None:
        keys = SigningCredentials(credentials.access_key_id, credentials.secret_access_key)
        SigV4Auth(keys, "lambda", credentials.region).add_auth(request)
    data = body if sent_body is None else sent_body
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, URL(url, encoded=True), data=data, headers=dict(request.headers.items())) as response,
    ):
        return response.status, await response.read(), response.headers


async def ask(service: Any, api_key: ApiKey, version: int, fields: Mapping[str, Any]) -> Any:
    """Send a request built from fields to the function that owns it; the decoded response."""
    url = f"{service.bootstrap_servers}/{owner_of(api_key).value}"
    status, body, _ = await post(url, frame(api_key, version, fields), service.credentials)
    assert status == 200, body
    return decode(body, api_key, version)


async def create_topic(service: Any, name: str, partitions: int = 1) -> None:
    fields = {"topics": [{"name": name, "num_partitions": partitions, "replication_factor": -1}], "timeout": 10_000}
    [topic] = (await ask(service, ApiKey.CREATE_TOPICS, 7, fields)).topics
    assert int(topic.error_code) == 0, topic


async def produce(service: Any, topic: str, records: bytes, partition: int = 0) -> Any:
    """The partition's part of the answer."""
    data = {"index": partition, "records": records}
    fields = {"acks": -1, "timeout": 10_000, "topic_data": [{"name": topic, "partition_data": [data]}]}
    return (await ask(service, ApiKey.PRODUCE, 9, fields)).responses[0].partition_responses[0]


async def fetch(service: Any, topic: str, offset: int, *, max_wait_ms: int = 0) -> Any:
    """The answer for partition 0."""
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 22, "current_leader_epoch": -1}
    fields = {
        "replica_id": -1,
        "max_wait": max_wait_ms,
        "min_bytes": 1,
        "max_bytes": 1 << 22,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }
    return (await ask(service, ApiKey.FETCH, 12, fields)).responses[0].partitions[0]
