"""Topics as tables by the packaged functions: the maintainer has a layer for it, those that serve have not.

Slow: the layer is built.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import fastavro
import pytest
from botocore.session import Session
from odradek.cli.service.doctor import check_tables
from odradek.client.profiles import FILE, Profile, save_profile
from odradek.columnar.typed.schema_prefix import encode_prefix
from odradek.format.record_batch import decode_batches
from odradek.functions.environment import (
    BUCKET,
    CATALOG_TABLE,
    ENDPOINT_URL,
    FUNCTION_URLS,
    GROUPS_TABLE,
    LOG_TABLE,
    QUEUE_URL,
    TABLE_CATALOG,
    WAKE_QUEUE_URL,
    format_function_urls,
)
from odradek.functions.environment import REGION as REGION_VARIABLE
from odradek.protocol.api import ApiKey
from pyiceberg.catalog import load_catalog

from tests.integration.lambdas.test_packaged_functions import URLS, call, fetch, produce
from tests.support.engine import batch
from tests.support.services.function_calls import body_of, function_event
from tests.support.services.packaged_functions import RunningFunction, deploy, running_function
from tests.support.stores.aws import (
    CREDENTIALS,
    REGION,
    StoreNames,
    create_queue,
    create_tables,
    moto_server,
    receive,
)
from tools.package import UNZIPPED_BYTES_MAX

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CONFIGS = {
    "odradek.table.enable": "true",
    "odradek.table.segment.bytes": "20000",
    "odradek.table.iceberg.enable": "true",
    "retention.ms": "-1",
}
SETTINGS = {
    "ODRADEK_MERGE_ROWS_MIN": "1",
    "ODRADEK_MERGE_DELAY_MS": "0",
    "ODRADEK_HEAD_BYTES_MAX": "400",
    "ODRADEK_SPILL_ENTRIES": "1",
    "ODRADEK_TABLE_GROUP_BYTES": "4000",
    "ODRADEK_MAINTENANCE_LEASE_MS": "1",
}
SCHEDULED = {"version": "0", "source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
AVRO = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "n", "type": "long"}, {"name": "text", "type": ["null", "string"]}],
}
PROTO = 'syntax = "proto3"; message R { int64 n = 1; string text = 2; }'
RECORDS = 400


def text_of(n: int) -> str:
    return "x" * (n % 300)


def in_json(n: int) -> bytes:
    return json.dumps({"n": n, "text": text_of(n)}).encode()


def in_avro(n: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), {"n": n, "text": text_of(n)})
    return out.getvalue()


def in_protobuf(n: int) -> bytes:
    text = text_of(n).encode()
    return b"\x08" + _varint(n) + b"\x12" + _varint(len(text)) + text


def _varint(n: int) -> bytes:
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + _varint(n >> 7)


class Functions:
    """The packaged functions of a deployment with tables, on an emulator of AWS."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        deployment = deploy(folder, tables=True)
        assert not (deployment.layer / "python" / "pyarrow").exists(), "those that serve have none"
        folders = (deployment.maintainers_layers, deployment.task_root)
        assert sum(file.stat().st_size for folder in folders for file in folder.rglob("*")) < UNZIPPED_BYTES_MAX
        self.endpoint = stack.enter_context(moto_server())
        self.names: StoreNames = create_tables(self.endpoint)
        self.catalog = {
            "type": "glue",
            "warehouse": f"s3://{self.names.bucket}/iceberg",
            "client.region": REGION,
            "glue.endpoint": self.endpoint,
            "s3.endpoint": self.endpoint,
        }
        environment = {
            **CREDENTIALS,
            **SETTINGS,
            REGION_VARIABLE: REGION,
            LOG_TABLE: self.names.log_table,
            GROUPS_TABLE: self.names.groups_table,
            CATALOG_TABLE: self.names.catalog_table,
            BUCKET: self.names.bucket,
            ENDPOINT_URL: self.endpoint,
            FUNCTION_URLS: format_function_urls(URLS),
            QUEUE_URL: create_queue(self.endpoint, "maintenance"),
            WAKE_QUEUE_URL: create_queue(self.endpoint, "wakes"),
            TABLE_CATALOG: ",".join(f"{name}={value}" for name, value in self.catalog.items()),
        }
        self._queue = environment[QUEUE_URL]
        names = ("admin", "produce", "fetch", "registry", "maintenance", "maintainer")
        self.running: dict[str, RunningFunction] = {
            name: stack.enter_context(running_function(deployment, name, environment, folder / f"{name}.log"))
            for name in names
        }

    def create(self, topic: str, **configs: str) -> None:
        configs_given = [{"name": name, "value": value} for name, value in {**CONFIGS, **configs}.items()]
        fields = {"name": topic, "num_partitions": 1, "replication_factor": -1, "configs": configs_given}
        [made] = call(self.running["admin"], ApiKey.CREATE_TOPICS, 7, {"topics": [fields], "timeout": 10_000}).topics
        assert int(made.error_code) == 0, made

    def register(self, subject: str, schema: str, schema_type: str) -> int:
        body = json.dumps({"schema": schema, "schemaType": schema_type}).encode()
        event = function_event(body, path=f"/subjects/{subject}/versions", host="r.example")
        response = self.running["registry"].invoke(event)
        assert response["statusCode"] == 200, response
        return int(json.loads(body_of(response))["id"])

    def fill(self, topic: str, values: list[bytes]) -> None:
        for first in range(0, len(values), 20):
            assert produce(self.running, topic, batch(values[first : first + 20])).base_offset == first

    def consumed(self, topic: str, count: int) -> list[bytes | None]:
        """The values of the first records, by the fetch function."""
        values_read: list[bytes | None] = []
        while len(values_read) < count:
            records = fetch(self.running, topic, len(values_read)).records
            values_read += [
                record.value for record in decode_batches(bytes(records)) if record.offset >= len(values_read)
            ]
        return values_read

    def maintain(self) -> int:
        """One plan, and its tasks; return how many of them failed."""
        self.running["maintenance"].invoke(SCHEDULED)
        messages = receive(self.endpoint, self._queue)
        records = [{"messageId": message["MessageId"], "body": message["Body"]} for message in messages]
        done = self.running["maintainer"].invoke({"Records": records})
        return len(done["batchItemFailures"])

    def attention(self) -> set[str]:
        """The reasons for which the maintainer has asked for attention: what the alarm counts."""
        lines = [json.loads(line) for line in self.log("maintainer").splitlines() if line.startswith("{")]
        return {line["reason"] for line in lines if line.get("message") == "attention"}

    def log(self, name: str) -> str:
        return self.running[name].log_text()

    def objects(self) -> set[str]:
        s3 = Session().create_client(
            "s3", region_name=REGION, endpoint_url=self.endpoint, aws_access_key_id="x", aws_secret_access_key="x"
        )
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=self.names.bucket)
        return {entry["Key"] for page in pages for entry in page.get("Contents", [])}

    def findings(self) -> list[tuple[str, str, str]]:
        """Return the findings of `odradek doctor` on the tables, by the profile of `odradek configure`."""
        names = dict(zip(("LogTableName", "GroupsTableName", "CatalogTableName"), self.names.tables, strict=True))
        outputs = {**names, "BucketName": self.names.bucket}
        save_profile(Profile("dev", "https://dev.example", REGION, outputs), FILE.expanduser())
        return [(finding.outcome, finding.check, finding.text) for finding in check_tables(Path("nowhere"))]


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Functions]:
    folder = tmp_path_factory.mktemp("tables")
    with ExitStack() as stack:
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in {**CREDENTIALS, "HOME": str(folder)}.items():
            patched.setenv(name, value)
        made = Functions(stack, folder)
        patched.setenv("AWS_ENDPOINT_URL", made.endpoint)  # of those who have one's credentials alone
        yield made


@pytest.mark.parametrize("value_format", ["JSON", "AVRO", "PROTOBUF"])
def test_the_maintainer_keeps_a_typed_iceberg_table_in_glues_catalog(functions: Functions, value_format: str) -> None:
    topic = value_format.lower()
    if value_format == "JSON":
        functions.create(topic, **{"odradek.table.schema": "n bigint, text string"})
        values = [in_json(n) for n in range(RECORDS)]
    else:
        functions.create(topic)
        schema_id = functions.register(
            f"{topic}-value", json.dumps(AVRO) if value_format == "AVRO" else PROTO, value_format
        )
        prefix = encode_prefix(schema_id, None if value_format == "AVRO" else [0])
        values = [prefix + (in_avro(n) if value_format == "AVRO" else in_protobuf(n)) for n in range(RECORDS)]
    functions.fill(topic, values)
    catalog = load_catalog("odradek", **functions.catalog)
    for _ in range(10):  # a plan finds what the task before it has left
        assert functions.maintain() == 0, functions.log("maintainer")
        if catalog.table_exists(f"odradek.{topic}") and catalog.load_table(f"odradek.{topic}").scan().count():
            break
    rows = catalog.load_table(f"odradek.{topic}").scan().to_arrow().sort_by("offset")
    assert 0 < rows.num_rows <= RECORDS, functions.log("maintainer")
    assert rows["offset"].to_pylist() == rows["n"].to_pylist() == list(range(rows.num_rows))
    assert rows["text"].to_pylist() == [text_of(n) for n in range(rows.num_rows)]
    assert rows["value"].to_pylist() == values[: rows.num_rows]

    assert functions.consumed(topic, RECORDS) == values, "the fetch function reads the files without pyarrow"
    assert "Traceback" not in functions.log("fetch")
    assert all(key.startswith(("wal/", "topics/", "iceberg/")) for key in functions.objects()), (
        "where the role may write"
    )


def test_values_whose_bytes_the_files_do_not_keep_are_made_again(functions: Functions) -> None:
    functions.create(
        "dropped", **{"odradek.table.schema": "n bigint, text string", "odradek.table.value.bytes": "false"}
    )
    values = [in_json(n) for n in range(RECORDS)]
    functions.fill("dropped", values)
    for _ in range(4):
        assert functions.maintain() == 0, functions.log("maintainer")
    rows = (
        load_catalog("odradek", **functions.catalog).load_table("odradek.dropped").scan().to_arrow().sort_by("offset")
    )
    assert rows["n"].to_pylist() == list(range(rows.num_rows))
    assert rows["value"].null_count == rows.num_rows > 0
    assert functions.consumed("dropped", RECORDS) == values


def test_a_table_that_cannot_be_kept_is_told(functions: Functions) -> None:
    from pyiceberg.schema import Schema

    catalog = load_catalog("odradek", **functions.catalog)
    catalog.create_namespace_if_not_exists("odradek")
    catalog.create_table("odradek.taken", Schema())
    functions.create("taken")
    functions.fill("taken", [in_json(n) for n in range(RECORDS)])
    failed = sum(functions.maintain() for _ in range(4))
    assert failed > 0
    assert "table-behind" in functions.attention(), functions.log("maintainer")
    [text] = [text for _, check, text in functions.findings() if check == "iceberg" and "behind" in text]
    assert "taken: the Iceberg table odradek.taken is behind since" in text
    assert "was not made by Odradek" in text
    assert any("/0/" in key and key.endswith(".parquet") for key in functions.objects()), "the log goes on"
