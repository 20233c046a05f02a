"""The store of the sink, synchronous: executors upload, the driver commits.

                 upload                          commit
    aws          objects and items, by S3        one TransactWriteItems, by DynamoDB, without a function
    embedded     files of the data directory     a call to the service, the only writer of the tables, which reads the
                                                 uploads before it commits them (protocol/numbered_commit.py)

An executor that uploads and dies leaves objects that no row names: the sweep removes them. Spark repeats the commit of
a driver that died, with the same batch id, which adds nothing twice (engine/transactions/numbered_batches.py). So a
commit with an unknown outcome is simply repeated here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from odradek.engine.engine import Engine
from odradek.engine.transactions.items import PendingBatches
from odradek.errors import ErrorCode, KafkaError
from odradek.model.log import ProducePartition
from odradek.settings import Settings
from odradek.spark.opened_store import OpenedStore
from odradek.spark.options import StoreOptions
from odradek.system import SystemRng

_CREDENTIALS = "credentials.json"  # of the service, beside its store


class SinkStore(OpenedStore):
    """A store for writing.

    Args:
        bootstrap_servers: URL of an embedded store's service.
    """

    def __init__(self, options: StoreOptions, bootstrap_servers: str = "") -> None:
        super().__init__(options, thread_name="odradek-sink")
        self._options = options
        self._bootstrap_servers = bootstrap_servers
        # Beside the service of an embedded store, files may be added, but no rows written.
        settings = Settings() if options.data_dir is None else Settings(item_bytes_max=0)
        store = self._store
        self._engine = Engine(
            tables=store, objects=store.objects, clock=store.clock, rng=SystemRng(), settings=settings
        )

    # --- executors ------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return self._engine.clock.now_ms()

    def partition_count(self, topic: str) -> int:
        """Return the partition count of a topic. Raises KafkaError(UNKNOWN_TOPIC_OR_PARTITION)."""

        async def look() -> int:
            return (await self._engine.topics.resolve(topic)).partition_count

        return self._run(look, retry_errors=True)

    def upload(self, partitions: Sequence[ProducePartition]) -> Future[list[PendingBatches]]:
        """Store batches for a later commit, in the background. The future raises KafkaError."""

        async def store() -> list[PendingBatches]:
            return await self._engine.numbered_batches.upload(partitions)

        return self._submit(store, retry_errors=True)

    # --- the driver -----------------------------------------------------------------------------------------------

    def commit(self, key: str, batch_id: int, uploaded: Sequence[PendingBatches]) -> bool:
        """Add the uploads, once for each batch id of the key; return whether this call did.

        Raises KafkaError: TRANSACTION_ABORTABLE: they cannot be added, upload them again; other errors of the service.
        """

        async def commit() -> bool:
            if self._options.data_dir is None:
                return await self._engine.numbered_batches.commit(key, batch_id, uploaded)
            return await commit_by_service(self._options.data_dir, self._bootstrap_servers, key, batch_id, uploaded)

        return self._run(commit, retry_errors=True)


async def commit_by_service(
    data_dir: str, bootstrap_servers: str, key: str, batch_id: int, uploaded: Sequence[PendingBatches]
) -> bool:
    """Have an embedded service commit the uploads in its data directory; return whether this call added them.

    Raises KafkaError: INVALID_CONFIG and BROKER_NOT_AVAILABLE for a wrong address, other errors of the service.
    """
    from kio.schema.end_txn.v5.request import EndTxnRequest
    from kio.schema.end_txn.v5.response import EndTxnResponse
    from kio.schema.types import ProducerId, TransactionalId
    from kio.static.primitive import i16

    from odradek.client.config import ClientConfig
    from odradek.client.connection import Connection, error_code
    from odradek.protocol.numbered_commit import encode_uploaded, with_added, with_uploaded

    request: Any = with_uploaded(EndTxnRequest)(
        transactional_id=TransactionalId(key),
        producer_id=ProducerId(-1),
        producer_epoch=i16(-1),
        committed=True,
        uploaded=encode_uploaded(batch_id, [(upload.partition, upload.entries) for upload in uploaded]),
    )

    def check(response: Any) -> None:
        code = error_code(response.error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, response.message or f"the service refused batch {batch_id} of {key!r}")
        if response.added < 0:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"{bootstrap_servers} is not an Odradek service: set bootstrapServers"
            )

    connection = Connection(ClientConfig.of({"bootstrap_servers": bootstrap_servers, **service_credentials(data_dir)}))
    await connection.connect()
    try:
        response: Any = await connection.call(request, with_added(EndTxnResponse), "the commit of a batch", check=check)
    finally:
        await connection.close()
    return bool(response.added)


def service_credentials(data_dir: str) -> dict[str, str]:
    """Return the credentials in a data directory; empty without the file: then the environment's are used."""
    try:
        document = json.loads(Path(data_dir, _CREDENTIALS).read_text())
        return {
            "aws_access_key_id": document["access_key_id"],
            "aws_secret_access_key": document["secret_access_key"],
            "aws_region": document["region"],
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError) as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"cannot read {_CREDENTIALS} in {data_dir}: {error}") from None
