"""The clients of the store's services: botocore's, or in a plain environment of a function the direct ones.

botocore's clients come from one session and share its loaded models. boto3 above it makes a cold start a little longer
(3 % of the CPU time for two clients when measured) and adds nothing here. All clients make one attempt per call
(calls.py says why) and have as many connections as there are threads.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from odradek.adapters.aws.direct.access import Access, access_of
from odradek.adapters.aws.wal_bucket import split_buckets
from odradek.adapters.store_clock import StoreClock

CONNECT_TIMEOUT_S = 2.0


@dataclass(slots=True)
class Clients:
    """Makes the clients of one store.

    Args:
        region: AWS region; None for that of the environment.
        endpoint_url: of an emulator; None for AWS.
        connections: concurrent calls to each service.
        clock: is told the time of every response.
    """

    region: str | None
    endpoint_url: str | None
    connections: int
    clock: StoreClock
    session: Any = None

    def dynamodb(self, timeout_s: float, *, direct: bool) -> Any:
        """Return a client of DynamoDB; a direct one if that is asked for and the environment allows it."""
        access = self._access() if direct else None
        if access is None:
            return self._botocore("dynamodb", timeout_s)
        from odradek.adapters.aws.direct.connections import Connections
        from odradek.adapters.aws.direct.dynamodb import DirectDynamoDb
        from odradek.adapters.aws.direct.signature import Signer

        url = access.dynamodb_url()
        connections = Connections(url, connect_timeout_s=CONNECT_TIMEOUT_S, read_timeout_s=timeout_s)
        signer = Signer(access.credentials, access.region, "dynamodb")
        return DirectDynamoDb(connections, signer, self.clock, self.heed)

    def s3(self, buckets: str, timeout_s: float, *, direct: bool) -> Any:
        """Return a client of S3; a direct one as above, and if no directory bucket, which has sessions, is used."""
        bucket, wal_bucket = split_buckets(buckets)
        access = self._access() if direct and wal_bucket is None else None
        if access is None:
            return self._botocore_s3(timeout_s)
        from odradek.adapters.aws.direct.connections import Connections
        from odradek.adapters.aws.direct.s3 import DirectS3
        from odradek.adapters.aws.direct.signature import Signer

        url = access.bucket_url(bucket)
        connections = Connections(url, connect_timeout_s=CONNECT_TIMEOUT_S, read_timeout_s=timeout_s)
        signer = Signer(access.credentials, access.region, "s3")
        return DirectS3(bucket, url, connections, signer, self.clock, self.heed, lambda: self._botocore_s3(timeout_s))

    def heed(self, date: str | None) -> None:
        """Note the `Date` of a response, also of a refusal."""
        if date is not None and self.clock.wants_answer():
            try:
                self.clock.answered(int(parsedate_to_datetime(date).timestamp() * 1000))
            except ValueError:
                return  # an unknown date format: an emulator's, or a proxy's

    def _access(self) -> Access | None:
        return access_of(os.environ, self.region, self.endpoint_url)

    def _botocore_s3(self, timeout_s: float) -> Any:
        path_style = {"addressing_style": "path"} if self.endpoint_url else {}
        # Uploads have a CRC-32C from us; batches are checked by their own when they are read.
        return self._botocore("s3", timeout_s, response_checksum_validation="when_required", s3=path_style)

    def _botocore(self, service: str, read_timeout_s: float, **config: Any) -> Any:
        import botocore.session
        from botocore.config import Config

        if self.session is None:
            self.session = botocore.session.get_session()
        client = self.session.create_client(
            service,
            region_name=self.region,
            endpoint_url=self.endpoint_url,
            config=Config(
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=read_timeout_s,
                retries={"total_max_attempts": 1},
                max_pool_connections=self.connections,
                tcp_keepalive=True,
                **config,
            ),
        )
        client.meta.events.register("after-call", self._after_call)
        return client

    def _after_call(self, parsed: dict[str, Any], **_: Any) -> None:
        self.heed(parsed.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date"))
