"""`odradek gateway`: the Kafka port over an embedded store or a deployment's. It runs no functions and no maintenance.

The container runs the same with the environment of a deployment (`python -m odradek.gateway`).
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.errors import ErrorCode, KafkaError, StoreUnavailable

if TYPE_CHECKING:
    from odradek.gateway.serve import Ports

_EMBEDDED = "embedded:"


def gateway(
    store: Annotated[
        str,
        typer.Option(
            "--store", help="embedded:DIR, or aws for the store named by ODRADEK_LOG_TABLE, ODRADEK_BUCKET ..."
        ),
    ] = "embedded:.odradek",
    listen: Annotated[
        str, typer.Option(help="host:port for Kafka clients; port 0 takes a free one.")
    ] = "127.0.0.1:9092",
    advertised: Annotated[str | None, typer.Option(help="host:port for clients to connect to, if different.")] = None,
    registry_listen: Annotated[
        str | None, typer.Option(help="host:port of the schema registry over HTTP. Default: no registry.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="PEM certificate: enables TLS on the ports.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM key of the certificate.")] = None,
    sasl: Annotated[bool, typer.Option("--sasl", help="Clients must log in; see [bold]odradek users[/bold].")] = False,
    tls_client_ca: Annotated[
        Path | None, typer.Option(help="PEM file: clients must show a certificate that one of these issued.")
    ] = None,
    plain_without_tls: Annotated[
        bool, typer.Option("--plain-without-tls", help="Let clients send passwords in the clear.")
    ] = False,
    broker_id: Annotated[
        int,
        typer.Option(help="A unique broker id, from 1: the gateway leads the partitions written through it.", min=0),
    ] = 0,
    rack: Annotated[
        str | None, typer.Option(help="Zone that it stands in; consumers that name another (client.rack) read there.")
    ] = None,
    health_port: Annotated[
        int, typer.Option(help="Port that answers GET while the gateway serves; 0: none.", min=0, max=65_535)
    ] = 0,
) -> None:
    """Serve Kafka clients until Ctrl-C. An embedded store must not be in use by another process.

    Example: [bold]odradek gateway --store embedded:./data --listen 127.0.0.1:9092[/bold]
    """
    from odradek.gateway import Listener
    from odradek.gateway.serve import Ports
    from odradek.gateway.server import host_and_port

    host, port = host_and_port("--listen", listen)
    kafka = Listener(host, port, advertised, tls_cert, tls_key, sasl, tls_client_ca, plain_without_tls, rack)
    registry = None
    if registry_listen is not None:
        host, port = host_and_port("--registry-listen", registry_listen)
        registry = replace(kafka, host=host, port=port, advertised=None)
    asyncio.run(_serve(store, Ports(kafka, registry, health_port, broker_id)))


async def _serve(store_name: str, ports: Ports) -> None:
    from odradek.adapters.aws import AwsStore
    from odradek.adapters.embedded import EmbeddedStore, open_embedded
    from odradek.functions.environment import Environment
    from odradek.functions.metering import InvocationMeter
    from odradek.gateway.serve import serve
    from odradek.settings import SERVER_MEMORY, Settings
    from odradek.system import SystemRng

    settings = Settings.from_env(os.environ, **SERVER_MEMORY)
    opened, meter = None, InvocationMeter()
    if store_name.startswith(_EMBEDDED):
        try:
            opened = open_embedded(Path(store_name.removeprefix(_EMBEDDED)), meter=meter, check="quick")
        except StoreUnavailable as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
        store: EmbeddedStore | AwsStore = opened
    elif store_name == "aws":
        store = Environment.from_env(os.environ).open_store(meter)
    else:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--store must be embedded:DIR or aws, not {store_name!r}")
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    try:
        await serve(
            store,
            store.objects,
            ports,
            settings,
            clock=store.clock,
            rng=SystemRng(),
            stopping=stopping,
            ready=_show,
            billed=lambda: meter.total.usage,
        )
    finally:
        if opened is not None:
            await opened.aclose()


def _show(addresses: dict[str, str]) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[green]Kafka clients[/green] on {addresses['bootstrap_servers']}")
    if "registry" in addresses:
        console.print(f"[green]schema registry[/green] on {addresses['registry']}")
