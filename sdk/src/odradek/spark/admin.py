"""An admin client for a job's driver: through the functions, or on AWS with the same engine straight to the store.

Records are written by the sink, not by a producer: a producer's retries write nothing twice, but a job that sends again
after a crash would.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from odradek.client.admin.sync import Admin
from odradek.client.transport.base import InProcessTransport
from odradek.errors import ErrorCode, KafkaError
from odradek.limits import FUNCTION_BINARY_BYTES_MAX
from odradek.spark.options import StoreOptions, parse_store

if TYPE_CHECKING:
    from odradek.client.transport.base import Transport


def open_admin(options: Mapping[str, str], bootstrap_servers: str | None) -> Admin:
    """Return an admin client for the store that source options name.

    Args:
        options: those that name the store.
        bootstrap_servers: URL of the coordinator function or of the embedded service. None accesses the store directly,
            which an embedded one does not allow: its service is the only writer.

    Raises:
        KafkaError: INVALID_CONFIG, BROKER_NOT_AVAILABLE.
    """
    return Admin(**client_configs(options, bootstrap_servers))


def client_configs(options: Mapping[str, str], bootstrap_servers: str | None) -> dict[str, Any]:
    """Return the configuration of clients of the store that source options name: see `open_admin`."""
    store = parse_store(options)
    if bootstrap_servers is not None:
        from odradek.spark.sink.commit import service_credentials

        credentials = {} if store.data_dir is None else service_credentials(store.data_dir)
        return {"bootstrap_servers": bootstrap_servers, **credentials}
    if store.data_dir is not None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "bootstrap_servers is required: the service of an embedded store is its only writer",
        )
    return {"transport": _straight_to(store)}


def _straight_to(store: StoreOptions) -> Transport:
    """Return a transport to a dispatcher in this process, over the tables and the bucket."""
    from odradek.adapters.aws import open_aws
    from odradek.dispatcher import BadFrame, Dispatcher, RequestContext
    from odradek.engine.engine import Engine
    from odradek.model.cluster import FLEET_BROKER_ID, Broker, Cluster
    from odradek.model.table import plain, table_of
    from odradek.protocol.api import OWNED, FunctionName
    from odradek.served.definition import Definitions
    from odradek.served.tables import Tables
    from odradek.system import SystemRng

    opened = open_aws(
        region=store.region or None,
        log_table=store.log_table,
        groups_table=store.catalog_table,  # no request concerns groups
        catalog_table=store.catalog_table,
        bucket=store.bucket,
        prefix=store.prefix,
        endpoint_url=store.endpoint_url or None,
    )
    engine = Engine(
        tables=opened,
        objects=opened.objects,
        clock=opened.clock,
        rng=SystemRng(),
    )
    dispatcher = Dispatcher(engine, Cluster(engine.settings.cluster_id, Broker(FLEET_BROKER_ID, "in-process", 0)))

    tables = Tables(engine, None, Definitions(engine), None)

    async def call(name: str, method: str, path: str, body: bytes) -> tuple[int, Mapping[str, Any]]:
        """Serve and drop tables as the function does. Maintenance then follows their topics, as it finds them."""
        try:
            if name == "tables" and (method, path) == ("POST", "/"):
                return 200, plain(await tables.serve(table_of(json.loads(body))))
            if name == "tables" and method == "DELETE":
                await tables.drop(unquote(path.removeprefix("/")))
                return 200, {}
        except KafkaError as refused:
            return refused.code.http_status, {"error": refused.code.name, "message": refused.message}
        return 404, {"error": ErrorCode.UNSUPPORTED_VERSION.name, "message": f"{name} needs the coordinator's URL"}

    async def dispatch(function: FunctionName, frame: bytes) -> bytes:
        context = RequestContext(
            principal="User:job",
            client_host="in-process",
            transport="https",
            allowed=OWNED[function],
            max_response_bytes=FUNCTION_BINARY_BYTES_MAX,
        )
        try:
            return b"".join(await dispatcher.dispatch(frame, context) or ())
        except BadFrame as bad:
            raise KafkaError(bad.code, bad.message) from None

    return InProcessTransport(dispatch, functions=call)
