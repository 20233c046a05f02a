"""The example docs/examples/postgres_to_s3.py: a real PostgreSQL server, moto's S3, and a handler of a trigger."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import threading
from pathlib import Path
from typing import Any

import boto3
import odradek
import pyarrow.parquet as pq
from moto.server import ThreadedMotoServer

from tests.support.connect.postgres import postgres
from tests.support.kafka.port import until

_EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "postgres_to_s3.py"
_KEYS = {"aws.region": "us-east-1", "aws.access.key.id": "testing", "aws.secret.access.key": "testing"}


def test_a_table_is_in_s3_as_parquet_and_the_function_gets_each_order() -> None:
    spec = importlib.util.spec_from_file_location("postgres_to_s3", _EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    calls: list[Any] = []

    def handler(event: dict[str, Any], context: Any) -> None:
        for records in event["records"].values():
            calls.extend(json.loads(base64.b64decode(record["value"]))["payload"] for record in records)

    moto = ThreadedMotoServer(port=0, verbose=False)
    moto.start()
    try:
        host, port = moto.get_host_and_port()
        s3 = boto3.client(
            "s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1", aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )  # fmt: skip
        s3.create_bucket(Bucket="lake")
        with postgres() as server, odradek.local(trigger_handlers={"shop:on_order": handler}) as service:
            server.execute(
                server.database("shop"),
                "CREATE TABLE orders (id int PRIMARY KEY, item text, price numeric(8,2))",
                "INSERT INTO orders VALUES (1, 'tea', 2.50), (2, 'milk', 1.20)",
            )
            database = {name: value for name, value in server.configs("shop").items() if name.startswith("database.")}
            example.PARQUET |= {"aws.endpoint.url": f"http://{host}:{port}"}
            stop = threading.Event()
            run = threading.Thread(
                target=example.main, args=(database, _KEYS, "shop:on_order", stop), kwargs=dict(service.client_config)
            )
            run.start()
            try:
                until(lambda: len(calls) == 2, 40, "the function has the first orders")
                server.execute(
                    "shop", "INSERT INTO orders VALUES (3, 'bread', 3)", "UPDATE orders SET price = 4 WHERE id = 3"
                )
                until(lambda: len(rows(s3)) == 4, 40, "all orders are in S3")
                until(lambda: len(calls) == 4, 40, "the function has all orders")
            finally:
                stop.set()
                run.join()
            expected = [(1, "tea", 2.5), (2, "milk", 1.2), (3, "bread", 3.0), (3, "bread", 4.0)]
            assert sorted(tuple(call.values()) for call in calls) == expected
            assert sorted(tuple(row.values()) for row in rows(s3)) == expected
    finally:
        moto.stop()


def rows(s3: Any) -> list[dict[str, Any]]:
    """Return the rows of all Parquet files."""
    table_rows = []
    for entry in s3.list_objects_v2(Bucket="lake").get("Contents", ()):
        assert entry["Key"].startswith("topics/shop.public.orders/partition=0/")
        table_rows += pq.read_table(
            io.BytesIO(s3.get_object(Bucket="lake", Key=entry["Key"])["Body"].read())
        ).to_pylist()
    return table_rows
