"""The registry's plain HTTP port: logins, races of many clients, whatever peers send; and the function beside it."""

from __future__ import annotations

import base64
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from odradek.client.serializers import HttpRegistry
from odradek.client.serializers import Schema as OurSchema
from odradek.errors import ErrorCode, KafkaError
from odradek.local import Listener, ThreadedService


@pytest.fixture(scope="module")
def service() -> Iterator[ThreadedService]:
    with odradek.local(registry=Listener(port=0, sasl=True)) as running:
        with odradek.Admin(**running.client_config) as admin:
            admin.create_user("ann", "secret")
        yield running


def status(url: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> tuple[int, Any]:
    request = urllib.request.Request(url, body, headers or {})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def basic(text: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


def test_only_users_get_in(service: ThreadedService) -> None:
    url = f"{service.registry_url}/subjects"
    assert status(url, basic("ann:secret"))[0] == 200
    for headers in ({}, basic("ann:wrong"), basic("bob:secret"), basic("ann"), {"Authorization": "Basic %%%"},
                    {"Authorization": "Bearer secret"}):  # fmt: skip
        code, document = status(url, headers)
        assert (code, document["error_code"]) == (401, 40101), headers
    with SchemaRegistryClient({"url": service.registry_url, "basic.auth.user.info": "ann:secret"}) as client:
        client.register_schema("in", Schema('"string"', "AVRO"))
    with pytest.raises(KafkaError) as refused:
        HttpRegistry(service.registry_url, user="ann", password="wrong").schema(1)
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert HttpRegistry(service.registry_url, user="ann", password="secret").schema(1).text == '"string"'


def test_the_function_must_be_signed(service: ThreadedService) -> None:
    assert status(f"{service.bootstrap_servers}/registry/subjects")[0] == 403
    with pytest.raises(KafkaError, match="refused"):
        HttpRegistry(f"{service.bootstrap_servers}/registry").register("s", OurSchema('"int"'))
    keys = {**service.client_config, "aws_secret_access_key": "wrong"}
    with pytest.raises(KafkaError):
        HttpRegistry.discover(**keys)


def test_eight_clients_at_once_get_dense_ids_and_one_id_a_schema(service: ThreadedService) -> None:
    before = _ids(service)
    ids_by_client: list[list[int]] = [[] for _ in range(8)]
    failures: list[BaseException] = []
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        try:
            settings = {"url": service.registry_url, "basic.auth.user.info": "ann:secret"}
            with SchemaRegistryClient(settings) as client:
                barrier.wait()
                for i in range(3):
                    shared = json.dumps({"type": "fixed", "name": "Shared", "size": i})
                    ids_by_client[number].append(client.register_schema(f"race-{i}", Schema(shared, "AVRO")))
                    own = json.dumps({"type": "fixed", "name": f"Own{number}", "size": i})
                    ids_by_client[number].append(client.register_schema(f"own-{number}-{i}", Schema(own, "AVRO")))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert {tuple(ids[::2]) for ids in ids_by_client} == {tuple(ids_by_client[0][::2])}
    assert {schema_id for ids in ids_by_client for schema_id in ids} == set(
        range(len(before) + 1, len(before) + 3 + 24 + 1)
    )
    settings = {"url": service.registry_url, "basic.auth.user.info": "ann:secret"}
    with SchemaRegistryClient(settings) as client:
        assert all(client.get_versions(f"race-{i}") == [1] for i in range(3))


def _ids(service: ThreadedService) -> set[int]:
    _, schemas = status(f"{service.registry_url}/schemas?deleted=true", basic("ann:secret"))
    return {schema["id"] for schema in schemas}


def test_schemas_are_there_after_a_restart(tmp_path: Path) -> None:
    with odradek.local(tmp_path, registry_port=0) as service:
        registry = HttpRegistry.discover(**service.client_config)
        made = registry.register("s", OurSchema('{"type": "object"}', "JSON"))
    with odradek.local(tmp_path, registry_port=0) as service:
        assert HttpRegistry(service.registry_url).schema(made) == OurSchema('{"type": "object"}', "JSON")
        with SchemaRegistryClient({"url": service.registry_url}) as client, pytest.raises(SchemaRegistryError) as no:
            client.get_schema(2)
        assert no.value.error_code == 40403


def test_a_request_too_large_is_refused_and_the_port_goes_on(service: ThreadedService) -> None:
    url = f"{service.registry_url}/subjects/s/versions"
    code, _ = status(url, basic("ann:secret"), b"x" * 5_000_000)
    assert code in (400, 413)
    assert status(f"{service.registry_url}/schemas/types", basic("ann:secret"))[0] == 200
