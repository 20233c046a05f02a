"""AWS on this machine: moto's server in a thread, with tables and bucket as infra/ makes them.

moto's DynamoDB loses updates and transactions under concurrent writers, so every DynamoDB request goes through one lock
around the WSGI application; S3's go beside it. For each item of a transaction it copies the whole table, to undo it;
here it copies the items that the transaction names.

    with moto_server() as endpoint:
        create_tables(endpoint)
        async with open_store(endpoint) as store: ...

Under `make contract-strict` the tables are those of an emulator that is stricter than moto; moto plays the rest.
"""

from __future__ import annotations

import copy
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from odradek.adapters.aws import AwsStore, open_aws
from odradek.ports.meter import Meter

REGION = "us-east-1"
DYNAMODB = os.environ.get("ODRADEK_TEST_DYNAMODB")
"""Endpoint of the strict emulator, None where moto plays DynamoDB too."""
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_SESSION_TOKEN": "testing",
    "AWS_DEFAULT_REGION": REGION,
}
"""Environment of a process that calls the server. The values are moto's convention and open nothing."""


@dataclass(frozen=True, slots=True)
class StoreNames:
    """Names of the tables and the bucket."""

    log_table: str = "odradek-log"
    groups_table: str = "odradek-groups"
    catalog_table: str = "odradek-catalog"
    rows_table: str = "odradek-rows"
    bucket: str = "odradek-objects"

    @property
    def tables(self) -> tuple[str, str, str]:
        """Those of the log, which are backed up."""
        return self.log_table, self.groups_table, self.catalog_table


@contextmanager
def moto_server() -> Iterator[str]:
    """Run moto on a free port of this machine; give its endpoint URL."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class QuietHandler(WSGIRequestHandler):
        def log(self, type: str, message: str, *args: object) -> None:
            pass

    class Dispatcher(DomainDispatcherApplication):
        """moto lists its own folder and tries 150 patterns for each request: a third of what a request costs."""

        get_backend_for_host = functools.cache(DomainDispatcherApplication.get_backend_for_host)

    _copy_only_what_a_transaction_names()
    application = _with_one_lock_for_dynamodb(Dispatcher(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=QuietHandler)
    thread = threading.Thread(target=server.serve_forever, name="moto", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        # The backends are the process's: the next server starts empty.
        _reset()


def create_tables(endpoint_url: str, names: StoreNames | None = None) -> StoreNames:
    """Create the tables and the bucket; give their names. A strict emulator's tables of these names are emptied."""
    names = names or StoreNames()
    dynamodb, s3 = _client("dynamodb", DYNAMODB or endpoint_url), _client("s3", endpoint_url)
    existing = dynamodb.list_tables()["TableNames"] if DYNAMODB else ()
    for table_name in (*names.tables, names.rows_table):
        if table_name in existing:
            dynamodb.delete_table(TableName=table_name)
        dynamodb.create_table(
            TableName=table_name,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "S"},
            ],
            BillingMode="PAY_PER_REQUEST",
        )
    s3.create_bucket(Bucket=names.bucket)
    return names


def create_bucket(endpoint_url: str, name: str) -> None:
    """Create a bucket more."""
    _client("s3", endpoint_url).create_bucket(Bucket=name)


def create_queue(endpoint_url: str, name: str) -> str:
    """Create a queue; its URL."""
    return str(_client("sqs", endpoint_url).create_queue(QueueName=name)["QueueUrl"])


def receive(endpoint_url: str, queue_url: str) -> list[dict[str, Any]]:
    """Take the messages that wait in a queue, up to ten."""
    response = _client("sqs", endpoint_url).receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10)
    return list(response.get("Messages", ()))


def open_store(
    endpoint_url: str,
    names: StoreNames | None = None,
    *,
    meter: Meter | None = None,
    prefix: str = "",
    direct: bool = False,
) -> AwsStore:
    """A store over existing tables. The environment needs CREDENTIALS; close it with `aclose` or `async with`."""
    names = names or StoreNames()

    def opened(endpoint_url: str) -> AwsStore:
        return open_aws(
            region=REGION,
            log_table=names.log_table,
            groups_table=names.groups_table,
            catalog_table=names.catalog_table,
            rows_table=names.rows_table,
            bucket=names.bucket,
            prefix=prefix,
            endpoint_url=endpoint_url,
            meter=meter,
            # A busy machine is slow; a test that wants a timeout makes one.
            table_timeout_s=120,
            object_timeout_s=120,
            direct=direct,
        )

    store = opened(endpoint_url)
    if DYNAMODB is None:
        return store
    strict = opened(DYNAMODB)
    strict.objects, strict._s3 = store.objects, store._s3
    return strict


def _client(service: str, endpoint_url: str) -> Any:
    import botocore.session

    return botocore.session.get_session().create_client(
        service,
        region_name=REGION,
        endpoint_url=endpoint_url,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )


Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


def _with_one_lock_for_dynamodb(application: Application) -> Application:
    lock = threading.Lock()

    def locked(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if str(environ.get("HTTP_X_AMZ_TARGET", "")).startswith("DynamoDB"):
            with lock:
                return list(application(environ, start_response))
        return application(environ, start_response)

    return locked


def _copy_only_what_a_transaction_names() -> None:
    """Make moto's transactions cost what their items do. Safe under the one lock."""
    from moto.dynamodb.models import DynamoDBBackend
    from moto.dynamodb.models.table import Table

    transact = DynamoDBBackend.transact_write_items
    if hasattr(transact, "copies_items_only"):
        return

    def copying_items(self: Any, transact_items: list[dict[str, Any]]) -> None:
        before = []
        for operation in (next(iter(transact_item.values())) for transact_item in transact_items):
            table = self.tables.get(operation.get("TableName"))
            named = operation.get("Key") or operation.get("Item")
            if table is not None and named and {table.hash_key_attr, table.range_key_attr} <= named.keys():
                keys = self.get_keys_value(table, named)
                before.append((table, keys, copy.deepcopy(table.get_item(*keys))))
        Table.__deepcopy__ = lambda table, memo: table  # type: ignore[attr-defined]
        try:
            transact(self, transact_items)
        except BaseException:
            for table, (partition_key, sort_key), item in before:
                if item is None:
                    table.delete_item(partition_key, sort_key)
                else:
                    table.items[partition_key][sort_key] = item
            raise
        finally:
            del Table.__deepcopy__  # type: ignore[attr-defined]

    copying_items.copies_items_only = True  # type: ignore[attr-defined]
    DynamoDBBackend.transact_write_items = copying_items  # type: ignore[method-assign]


def _reset() -> None:
    from moto.backends import get_backend

    for service in ("dynamodb", "s3", "sqs", "lambda", "iam", "glue"):
        backends: Any = get_backend(service)
        for account in backends.values():
            for backend in account.values():
                backend.reset()
