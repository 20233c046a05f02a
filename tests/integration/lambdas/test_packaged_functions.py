"""The packaged functions run: the zip and the layer, under AWS's runtime client, against DynamoDB and S3 of moto."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from odradek.errors import ErrorCode
from odradek.format.record_batch import decode_batches
from odradek.functions.environment import (
    BUCKET,
    CATALOG_TABLE,
    ENDPOINT_URL,
    FUNCTION_URLS,
    GROUPS_TABLE,
    LOG_TABLE,
    QUEUE_URL,
    ROWS_TABLE,
    WAKE_QUEUE_URL,
    format_function_urls,
)
from odradek.functions.environment import REGION as REGION_VARIABLE
from odradek.protocol.api import ApiKey, FunctionName

from tests.support.engine import batch
from tests.support.examples import some
from tests.support.services.function_calls import body_of, decode, frame, function_event, refusal_of
from tests.support.services.packaged_functions import Deployment, RunningFunction, deploy, running_function
from tests.support.services.runtime_api import FunctionFailed
from tests.support.stores.aws import CREDENTIALS, REGION, create_queue, create_tables, moto_server, receive
from tools.package import LAMBDA_PLATFORM, LAMBDA_PYTHON, Target, build

pytestmark = pytest.mark.timeout(900)  # the first test waits for the build

URLS = {
    FunctionName.PRODUCE: "https://p.example/",
    FunctionName.FETCH: "https://f.example/",
    FunctionName.ADMIN: "https://a.example/",
}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    return deploy(tmp_path_factory.mktemp("deployment"))


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with moto_server() as endpoint:
        names = create_tables(endpoint)
        yield {
            **CREDENTIALS,
            REGION_VARIABLE: REGION,
            LOG_TABLE: names.log_table,
            GROUPS_TABLE: names.groups_table,
            CATALOG_TABLE: names.catalog_table,
            ROWS_TABLE: names.rows_table,
            BUCKET: names.bucket,
            ENDPOINT_URL: endpoint,
            FUNCTION_URLS: format_function_urls(URLS),
            QUEUE_URL: create_queue(endpoint, "maintenance"),
            WAKE_QUEUE_URL: create_queue(endpoint, "wakes"),
            "ODRADEK_LOG_INTERVAL_MS": "0",  # a line for each invocation
        }


@pytest.fixture(scope="module")
def functions(
    deployment: Deployment, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, RunningFunction]]:
    logs = tmp_path_factory.mktemp("logs")
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(running_function(deployment, name, environment, logs / name))
            for name in (
                *FunctionName,
                "maintenance",
                "maintainer",
                "registry",
                "tables",
                "triggers",
                "trigger-dispatcher",
            )
        }


def call(function: RunningFunction, api_key: ApiKey, version: int, fields: dict[str, Any]) -> Any:
    response = function.invoke(function_event(frame(api_key, version, fields)))
    assert response["statusCode"] == 200, (response, function.log_text())
    return decode(body_of(response), api_key, version)


def create_topic(functions: dict[str, RunningFunction], name: str) -> UUID:
    fields = {"topics": [{"name": name, "num_partitions": 1, "replication_factor": -1}], "timeout": 10_000}
    [topic] = call(functions["admin"], ApiKey.CREATE_TOPICS, 7, fields).topics
    assert int(topic.error_code) == 0, topic
    assert topic.topic_id is not None
    return UUID(str(topic.topic_id))


def produce(functions: dict[str, RunningFunction], topic: str, records: bytes) -> Any:
    partition = {"index": 0, "records": records}
    fields = {"acks": -1, "timeout": 10_000, "topic_data": [{"name": topic, "partition_data": [partition]}]}
    return call(functions["produce"], ApiKey.PRODUCE, 9, fields).responses[0].partition_responses[0]


def fetch(functions: dict[str, RunningFunction], topic: str, offset: int) -> Any:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 22, "current_leader_epoch": -1}
    fields = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 22,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }
    return call(functions["fetch"], ApiKey.FETCH, 12, fields).responses[0].partitions[0]


@pytest.mark.parametrize("size", [100, 300_000], ids=["as an item", "as an object"])
def test_create_produce_fetch_commit(functions: dict[str, RunningFunction], size: int) -> None:
    topic = f"flights-{size}"
    create_topic(functions, topic)
    values = [bytes([n]) * size for n in range(3)]
    assert produce(functions, topic, batch(values)).base_offset == 0
    assert produce(functions, topic, batch([b"last"])).base_offset == 3
    fetched = fetch(functions, topic, 0)
    assert fetched.high_watermark == 4
    assert [r.value for r in decode_batches(bytes(fetched.records), allow_truncated=False)] == [*values, b"last"]

    commit = {
        "group_id": f"readers-{size}",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 3}]}],
    }
    committed = call(functions["coordinator"], ApiKey.OFFSET_COMMIT, 9, commit).topics[0].partitions[0]
    assert int(committed.error_code) == 0
    groups_asked = {"groups": [{"group_id": f"readers-{size}", "topics": [{"name": topic, "partition_indexes": [0]}]}]}
    group = call(functions["coordinator"], ApiKey.OFFSET_FETCH, 8, groups_asked).groups[0]
    assert group.topics[0].partitions[0].committed_offset == 3


def test_discovery(functions: dict[str, RunningFunction]) -> None:
    event = function_event(method="GET", path="/.well-known/odradek", host="c.example")
    response = functions["coordinator"].invoke(event)
    assert response["statusCode"] == 200
    document = json.loads(response["body"])
    assert document["functions"] == {**{k.value: v for k, v in URLS.items()}, "coordinator": "https://c.example/"}
    assert document["region"] == REGION


def test_the_registry_registers(functions: dict[str, RunningFunction]) -> None:
    schema = json.dumps({"schema": '{"type": "string"}'}).encode()
    event = function_event(schema, path="/subjects/greetings-value/versions", host="r.example")
    answers = [functions["registry"].invoke(event) for _ in range(2)]
    assert [response["statusCode"] for response in answers] == [200, 200]
    assert [json.loads(body_of(response))["id"] for response in answers] == [1, 1]


def test_a_group_subscribes_by_a_pattern(functions: dict[str, RunningFunction]) -> None:
    """With RE2, which is compiled: the layer holds it for the function's Python."""
    topic_id = create_topic(functions, "by-pattern-1")
    fields = {
        "group_id": "by-pattern",
        "member_id": str(UUID(int=77)),
        "member_epoch": 0,
        "rebalance_timeout": 30_000,
        "subscribed_topic_names": [],
        "subscribed_topic_regex": "by-pattern-[[:digit:]]",
        "topic_partitions": [],
    }
    joined = call(functions["coordinator"], ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, fields)
    assert int(joined.error_code) == 0, joined
    assert [topic_partition.topic_id for topic_partition in joined.assignment.topic_partitions] == [topic_id]
    fields |= {"member_id": str(UUID(int=78)), "subscribed_topic_regex": "(?=a)"}
    refused = call(functions["coordinator"], ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, fields)
    assert ErrorCode(int(refused.error_code)) is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_table_is_served_and_answers_what_was_just_written(functions: dict[str, RunningFunction]) -> None:
    """The function `tables` maintains what somebody waits for; values of Avro need no library that the layer lacks."""

    def ask(method: str, path: str, query: str = "", body: bytes = b"") -> Any:
        event = {**function_event(body, method=method, path=path), "rawQueryString": query}
        response = functions["tables"].invoke(event)
        assert response["statusCode"] == 200, (response, functions["tables"].log_text())
        return json.loads(body_of(response))

    compacted = {"name": "cleanup.policy", "value": "compact"}
    topic = {"name": "scores", "num_partitions": 1, "replication_factor": -1, "configs": [compacted]}
    [made] = call(functions["admin"], ApiKey.CREATE_TOPICS, 7, {"topics": [topic], "timeout": 10_000}).topics
    assert int(made.error_code) == 0, made
    schema = json.dumps({"schema": json.dumps("long")}).encode()
    event = function_event(schema, path="/subjects/scores-value/versions", host="r.example")
    schema_id = json.loads(body_of(functions["registry"].invoke(event)))["id"]
    ask("POST", "/", body=b'{"name": "scores", "topic": "scores", "value_format": "AVRO"}')
    prefix = b"\0" + schema_id.to_bytes(4, "big")
    values = [prefix + b"\x02", prefix + b"\x0e", prefix + b"\x01"]
    assert produce(functions, "scores", batch(values, keys=[b"ada", b"bob", b"ada"])).base_offset == 0
    response = ask("GET", "/tables/scores/ada", "min_offset=0%3A2")
    assert [(row["key"], row["value"], row["offset"]) for row in response["rows"]] == [("ada", -1, 2)]
    assert response["covered"] == {"0": 3}
    ranged = ask("GET", "/scores", "limit=10")
    assert [(row["key"], row["value"]) for row in ranged["rows"]] == [("ada", -1), ("bob", 7)]
    assert ask("GET", "/scores")["partitions"][0]["lag"] == 0
    ask("DELETE", "/scores")


def test_a_corrupt_batch_leaves_no_trace(functions: dict[str, RunningFunction]) -> None:
    create_topic(functions, "corrupt")
    broken = bytearray(batch([b"value"]))
    broken[-1] ^= 1
    assert produce(functions, "corrupt", bytes(broken)).error_code.name == "corrupt_message"
    assert fetch(functions, "corrupt", 0).high_watermark == 0


def test_bad_events_are_answered_and_the_process_goes_on(functions: dict[str, RunningFunction]) -> None:
    produce_function = functions["produce"]
    assert refusal_of(produce_function.invoke({"no": "event"})) == (400, "INVALID_REQUEST")
    assert refusal_of(produce_function.invoke(function_event(b"\x00"))) == (400, "INVALID_REQUEST")
    assert refusal_of(produce_function.invoke(function_event(b"", method="GET"))) == (404, "INVALID_REQUEST")
    api_versions = call(
        produce_function, ApiKey.API_VERSIONS, 3, {"client_software_name": "t", "client_software_version": "1"}
    )
    assert {int(api.api_key) for api in api_versions.api_keys} >= {int(ApiKey.PRODUCE)}
    assert "Traceback" not in produce_function.log_text()


def test_invocations_are_logged_with_their_billable_units(functions: dict[str, RunningFunction]) -> None:
    create_topic(functions, "metered")
    produce(functions, "metered", batch([b"x" * 100_000]))
    lines = [
        json.loads(line) for line in functions["produce"].log_text().splitlines() if '"message":"invocation"' in line
    ]
    last = lines[-1]
    assert (last["api"], last["function"], last["level"]) == ("PRODUCE", "produce", "INFO")
    assert last["object_put_requests"] == 1
    assert last["table_write_units"] > 0  # moto counts halves


def test_maintenance_plans_a_deletion_and_the_maintainer_finishes_it(
    functions: dict[str, RunningFunction], environment: dict[str, str]
) -> None:
    create_topic(functions, "doomed")
    produce(functions, "doomed", batch([b"v"]))
    fields = {"topics": [{"name": "doomed"}], "timeout": 10_000}
    [deleted] = call(functions["admin"], ApiKey.DELETE_TOPICS, 6, fields).responses
    assert int(deleted.error_code) == 0
    scheduled = {"version": "0", "source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
    report = functions["maintenance"].invoke(scheduled)
    assert (report["finished"], report["failures"]) == (True, [])
    assert report["planned"]["topic_deletion"] >= 1
    assert report["sent"] == sum(report["planned"].values())
    messages = receive(environment[ENDPOINT_URL], environment[QUEUE_URL])
    assert len(messages) == report["sent"]
    records = [{"messageId": message["MessageId"], "body": message["Body"]} for message in messages]
    assert functions["maintainer"].invoke({"Records": records}) == {"batchItemFailures": []}
    assert functions["maintenance"].invoke(scheduled)["planned"].get("topic_deletion", 0) == 0


def test_an_append_wakes_the_dispatcher_which_keeps_what_nobody_takes(
    functions: dict[str, RunningFunction], environment: dict[str, str]
) -> None:
    """moto has no such function, as Lambda has none that was deleted: the record expires, and goes to the queue."""
    create_topic(functions, "orders")
    failed = create_queue(environment[ENDPOINT_URL], "failed-orders")
    trigger = {
        "name": "orders",
        "topic": "orders",
        "function": f"arn:aws:lambda:{REGION}:123456789012:function:gone",
        "maximum_record_age_s": 60,
        "on_failure": f"sqs:{failed}",
    }
    created = functions["triggers"].invoke(function_event(json.dumps(trigger).encode(), path="/", host="t.example"))
    assert created["statusCode"] == 200, created
    assert work_off(functions, environment) == {"batchItemFailures": []}  # the creation's message: the head is marked
    # batch() dates its records of 2023: they are too old for a call, and given up.
    produce(functions, "orders", batch([b"one", b"two"]))
    assert work_off(functions, environment) == {"batchItemFailures": []}
    [message] = receive(environment[ENDPOINT_URL], failed)
    document = json.loads(message["Body"])
    assert document["requestContext"]["condition"] == "RecordAgeExceeded"
    assert document["KafkaBatchInfo"]["topicPartition"] == "orders-0"
    described = functions["triggers"].invoke(function_event(method="GET", path="/orders", host="t.example"))
    [partition] = json.loads(body_of(described))["partitions"]
    assert (partition["offset"], partition["lag"], partition["given_up"]) == (2, 0, 2)


def test_a_function_that_is_missing_is_told_and_called_again(
    functions: dict[str, RunningFunction], environment: dict[str, str]
) -> None:
    create_topic(functions, "calls")
    trigger = {"name": "calls", "topic": "calls", "function": f"arn:aws:lambda:{REGION}:123456789012:function:gone"}
    created = functions["triggers"].invoke(function_event(json.dumps(trigger).encode(), path="/", host="t.example"))
    assert created["statusCode"] == 200, created
    work_off(functions, environment)
    produce(functions, "calls", batch([b"one"]))
    work_off(functions, environment)
    described = functions["triggers"].invoke(function_event(method="GET", path="/calls", host="t.example"))
    [partition] = json.loads(body_of(described))["partitions"]
    assert "ResourceNotFoundException" in partition["error"]
    assert partition["lag"] == 1
    assert partition["retry_ms"] > 0
    deleted = functions["triggers"].invoke(function_event(method="DELETE", path="/calls", host="t.example"))
    assert deleted["statusCode"] == 200


def work_off(functions: dict[str, RunningFunction], environment: dict[str, str]) -> Any:
    """Call the dispatcher with the messages that wait, as the queue's mapping does."""
    messages = receive(environment[ENDPOINT_URL], environment[WAKE_QUEUE_URL])
    assert messages, "a wake message was sent"
    records = [{"messageId": message["MessageId"], "body": message["Body"]} for message in messages]
    return functions["trigger-dispatcher"].invoke({"Records": records})


def test_missing_configuration_is_one_clear_message(deployment: Deployment, tmp_path: Path) -> None:
    with (
        running_function(deployment, "produce", {REGION_VARIABLE: REGION}, tmp_path / "log") as function,
        pytest.raises(FunctionFailed) as failed,
    ):
        function.invoke({})
    assert failed.value.document["errorType"] == "KafkaError"
    message = failed.value.document["errorMessage"]
    assert message.startswith("INVALID_CONFIG: the function lacks ")
    assert LOG_TABLE in message
    assert BUCKET in message


def test_the_layer_holds_what_the_functions_need_and_no_more(deployment: Deployment) -> None:
    python = deployment.layer / "python"
    for unwanted in ("aiohttp", "typer", "rich", "boto3", "pyspark", "numba", "pyarrow", "numpy", "moto"):
        assert not (python / unwanted).exists(), unwanted
    described = {
        service_folder.name for service_folder in (python / "botocore" / "data").iterdir() if service_folder.is_dir()
    }
    assert described >= {"dynamodb", "s3", "sqs", "sns", "lambda"}, "the services that functions call"
    assert list((python / "odradek").rglob("__pycache__/*.pyc")), "bytecode is packaged"
    assert (python / "odradek" / "py.typed").exists()


@pytest.mark.parametrize("name", some(FunctionName))
def test_a_cold_function_compiles_no_dataclass(name: FunctionName, deployment: Deployment, tmp_path: Path) -> None:
    """One is a millisecond, and a function imports 130: what the package has must be what this Python asks for."""
    code = (
        f"import dataclasses, lambdas.{name.value}.handler; print(dataclasses.exec.missed, len(dataclasses.exec.codes))"
    )
    names = dict.fromkeys((LOG_TABLE, GROUPS_TABLE, CATALOG_TABLE, BUCKET), "none")
    path = os.pathsep.join([str(deployment.task_root), str(deployment.layer / "python")])
    child = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**CREDENTIALS, **names, REGION_VARIABLE: REGION, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    missed, codes = map(int, child.stdout.split())
    assert (missed, codes > 100) == (0, True)


@pytest.mark.slow
def test_the_layer_of_a_deployment_is_for_lambdas_processor_and_python(tmp_path: Path) -> None:
    """Slow: it is built for another machine, so it has to be downloaded."""
    layer = next(
        artifact
        for artifact in build(tmp_path, Target(LAMBDA_PYTHON, LAMBDA_PLATFORM))
        if artifact.path.name == "layer.zip"
    )
    with zipfile.ZipFile(layer.path) as archive:
        names = archive.namelist()
    compiled = {name for name in names if ".so" in name}
    assert {name.split("/")[1] for name in compiled} >= {"cramjam", "crc32c", "re2", "kio"}
    assert {name for name in compiled if "cpython-313-aarch64" not in name and "abi3" not in name} == set()
