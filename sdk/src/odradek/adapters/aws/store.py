"""The store on AWS: DynamoDB tables and a bucket. clients.py makes its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

from odradek.adapters.aws.calls import Calls
from odradek.adapters.aws.clients import Clients
from odradek.adapters.aws.object_store import S3ObjectStore
from odradek.adapters.aws.table import DynamoTable
from odradek.adapters.aws.transaction import transact
from odradek.adapters.aws.wal_bucket import DirectoryBucketStore, WalApart, split_buckets
from odradek.adapters.store_clock import StoreClock
from odradek.errors import ErrorCode, KafkaError
from odradek.ports.clock import Clock
from odradek.ports.meter import Meter, NullMeter
from odradek.ports.object_store import ObjectStore
from odradek.ports.tables import TableOperation
from odradek.system import SystemClock

CONNECTIONS = 32
TABLE_TIMEOUT_S = 5.0  # a table answers in milliseconds
OBJECT_TIMEOUT_S = 20.0


class AwsStore:
    """ports.tables.Tables and an object store on AWS. Use `open_aws`; close it with `aclose`.

    Attributes:
        clock: this machine's clock, corrected by AWS's responses (store_clock.py).
    """

    def __init__(
        self,
        *,
        dynamodb: Any,
        s3: Any,
        log_table: str,
        groups_table: str,
        catalog_table: str,
        bucket: str,
        rows_table: str | None = None,
        prefix: str = "",
        meter: Meter | None = None,
        connections: int = CONNECTIONS,
        clock: Clock | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        self._dynamodb = dynamodb
        self._s3 = s3
        self._meter = meter or NullMeter()
        self._pool = ThreadPoolExecutor(connections, thread_name_prefix="odradek-aws")
        self._calls = Calls(self._pool)
        self.log = DynamoTable(dynamodb, log_table, meter, calls=self._calls)
        self.groups = DynamoTable(dynamodb, groups_table, meter, calls=self._calls)
        self.catalog = DynamoTable(dynamodb, catalog_table, meter, calls=self._calls)
        self._rows = None if rows_table is None else DynamoTable(dynamodb, rows_table, meter, calls=self._calls)
        main, wal_bucket = split_buckets(bucket)
        self.objects: ObjectStore = S3ObjectStore(s3, main, prefix, meter, calls=self._calls)
        if wal_bucket is not None:
            wal = DirectoryBucketStore(s3, wal_bucket, prefix, meter, calls=self._calls)
            self.objects = WalApart(wal, self.objects)

    @property
    def rows(self) -> DynamoTable:
        """The table of served tables' rows. Raises KafkaError(INVALID_CONFIG) if the process was told none."""
        if self._rows is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, "the table of rows is not known: set ODRADEK_ROWS_TABLE as `cdk deploy` does"
            )
        return self._rows

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        names = {
            "log": self.log.table_name,
            "groups": self.groups.table_name,
            "catalog": self.catalog.table_name,
        }
        addressed = [(names[operation.table], operation.operation) for operation in operations]
        await transact(self._dynamodb, self._calls, self._meter, addressed)

    async def aclose(self) -> None:
        """Finish the calls in progress and close the connections."""
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)
        self._dynamodb.close()
        self._s3.close()

    async def __aenter__(self) -> AwsStore:
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def open_aws(
    *,
    region: str | None,
    log_table: str,
    groups_table: str,
    catalog_table: str,
    bucket: str,
    rows_table: str | None = None,
    prefix: str = "",
    endpoint_url: str | None = None,
    meter: Meter | None = None,
    connections: int = CONNECTIONS,
    table_timeout_s: float = TABLE_TIMEOUT_S,
    object_timeout_s: float = OBJECT_TIMEOUT_S,
    direct: bool = False,
) -> AwsStore:
    """Create the clients and the store; makes no call yet.

    Args:
        region: AWS region; None for that of the environment.
        log_table, groups_table, catalog_table: names of the DynamoDB tables.
        rows_table: that of served tables; None: this process serves none.
        bucket, prefix: the location of objects; "bucket,directory bucket" has the WAL in the second (wal_bucket.py).
        endpoint_url: of an emulator; None for AWS.
        meter: counts what AWS bills.
        connections: concurrent calls to each service.
        table_timeout_s, object_timeout_s: the timeout of a response, after which a write's outcome is unknown.
        direct: call DynamoDB and S3 without botocore where the environment is a plain one (direct/access.py): for
            functions, which start in a third of the time.
    """
    clock = StoreClock(SystemClock())
    clients = Clients(region, endpoint_url, connections, clock)
    return AwsStore(
        dynamodb=clients.dynamodb(table_timeout_s, direct=direct),
        s3=clients.s3(bucket, object_timeout_s, direct=direct),
        log_table=log_table,
        groups_table=groups_table,
        catalog_table=catalog_table,
        bucket=bucket,
        rows_table=rows_table,
        prefix=prefix,
        meter=meter,
        connections=connections,
        clock=clock,
    )
