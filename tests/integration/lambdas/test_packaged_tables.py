"""Columnar history by the packaged functions: the maintainer has a layer with pyarrow, those that serve have not.

Slow: the layer is built.
"""

from __future__ import annotations

from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from botocore.session import Session
from odradek.format.record_batch import decode_batches
from odradek.functions.environment import (
    BUCKET,
    CATALOG_TABLE,
    ENDPOINT_URL,
    FUNCTION_URLS,
    GROUPS_TABLE,
    LOG_TABLE,
    QUEUE_URL,
    WAKE_QUEUE_URL,
    format_function_urls,
)
from odradek.functions.environment import REGION as REGION_VARIABLE
from odradek.protocol.api import ApiKey

from tests.integration.lambdas.test_packaged_functions import URLS, call, fetch, produce
from tests.support.engine import batch
from tests.support.services.packaged_functions import deploy, running_function
from tests.support.stores.aws import CREDENTIALS, REGION, create_queue, create_tables, moto_server, receive
from tools.package import UNZIPPED_BYTES_MAX

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CONFIGS = {
    "odradek.table.enable": "true",
    "odradek.table.segment.bytes": "20000",
    "odradek.table.schema": "n bigint",
    "retention.ms": "-1",
}
SETTINGS = {
    "ODRADEK_MERGE_ROWS_MIN": "1",
    "ODRADEK_MERGE_DELAY_MS": "0",
    "ODRADEK_HEAD_BYTES_MAX": "400",
    "ODRADEK_SPILL_ENTRIES": "1",
    "ODRADEK_TABLE_GROUP_BYTES": "4000",
}
SCHEDULED = {"version": "0", "source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}


def test_the_maintainer_writes_parquet_and_the_fetch_function_serves_it_without_pyarrow(tmp_path: Path) -> None:
    deployment = deploy(tmp_path, tables=True)
    folders = (deployment.layer, deployment.task_root, deployment.tables)
    assert sum(each.stat().st_size for folder in folders for each in folder.rglob("*")) < UNZIPPED_BYTES_MAX
    assert not (deployment.layer / "python" / "pyarrow").exists()
    with ExitStack() as stack:
        endpoint = stack.enter_context(moto_server())
        names = create_tables(endpoint)
        environment = {
            **CREDENTIALS,
            **SETTINGS,
            REGION_VARIABLE: REGION,
            LOG_TABLE: names.log_table,
            GROUPS_TABLE: names.groups_table,
            CATALOG_TABLE: names.catalog_table,
            BUCKET: names.bucket,
            ENDPOINT_URL: endpoint,
            FUNCTION_URLS: format_function_urls(URLS),
            QUEUE_URL: create_queue(endpoint, "maintenance"),
            WAKE_QUEUE_URL: create_queue(endpoint, "wakes"),
        }
        functions = {
            name: stack.enter_context(running_function(deployment, name, environment, tmp_path / f"{name}.log"))
            for name in ("admin", "produce", "fetch", "maintenance", "maintainer")
        }
        configs = [{"name": name, "value": value} for name, value in CONFIGS.items()]
        topic = {"name": "t", "num_partitions": 1, "replication_factor": -1, "configs": configs}
        [made] = call(functions["admin"], ApiKey.CREATE_TOPICS, 7, {"topics": [topic], "timeout": 10_000}).topics
        assert int(made.error_code) == 0, made
        values = [b'{"n": %d, "text": "%s"}' % (n, b"x" * (n % 300)) for n in range(400)]
        for first in range(0, len(values), 20):
            assert produce(functions, "t", batch(values[first : first + 20])).base_offset == first

        def stored() -> dict[str, bytes]:
            s3 = Session().create_client(
                "s3", region_name=REGION, endpoint_url=endpoint, aws_access_key_id="x", aws_secret_access_key="x"
            )
            listed = s3.list_objects_v2(Bucket=names.bucket, Prefix="topics/").get("Contents", [])
            keys = [each["Key"] for each in listed if each["Key"].endswith(".parquet")]
            return {key: s3.get_object(Bucket=names.bucket, Key=key)["Body"].read() for key in keys}

        for _ in range(10):  # a plan finds what the task before it has left
            functions["maintenance"].invoke(SCHEDULED)
            messages = receive(endpoint, environment[QUEUE_URL])
            records = [{"messageId": each["MessageId"], "body": each["Body"]} for each in messages]
            done = functions["maintainer"].invoke({"Records": records})
            assert done == {"batchItemFailures": []}, functions["maintainer"].log_text()
            if stored():
                break
        files = stored()
        assert files, functions["maintainer"].log_text()
        typed = [number for key in sorted(files) for number in pq.read_table(BytesIO(files[key]))["n"].to_pylist()]
        assert typed == list(range(len(typed)))
        assert typed, "the first records are in files, with their typed column"

        found: list[Any] = []
        while len(found) < len(values):
            records = fetch(functions, "t", len(found)).records
            found += [record.value for record in decode_batches(bytes(records)) if record.offset >= len(found)]
        assert found == values
        assert "Traceback" not in functions["fetch"].log_text()
