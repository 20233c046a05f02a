"""`odradek local`: the embedded service in the foreground."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_PORT, DataDir
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra

if TYPE_CHECKING:
    from odradek.gateway import Listener
    from odradek.local import LocalService


def local(
    data_dir: DataDir = DEFAULT_DATA_DIR,
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 takes a free one.")] = DEFAULT_PORT,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    kafka_port: Annotated[
        int | None, typer.Option("--kafka-port", help="Also serve Kafka clients on this port; 0 takes a free one.")
    ] = None,
    kafka_advertised: Annotated[
        str | None, typer.Option(help="host:port for Kafka clients to connect to, if different.")
    ] = None,
    kafka_tls_cert: Annotated[
        Path | None, typer.Option(help="PEM certificate: enables TLS on the Kafka port and the registry's.")
    ] = None,
    kafka_tls_key: Annotated[Path | None, typer.Option(help="PEM key of the certificate.")] = None,
    kafka_sasl: Annotated[
        bool,
        typer.Option(
            "--kafka-sasl",
            help="Clients of the Kafka port and the registry's must log in; see [bold]odradek users[/bold].",
        ),
    ] = False,
    kafka_tls_client_ca: Annotated[
        Path | None, typer.Option(help="PEM file: their clients must show a certificate that one of these issued.")
    ] = None,
    plain_without_tls: Annotated[
        bool, typer.Option("--plain-without-tls", help="Let their clients send passwords in the clear.")
    ] = False,
    registry_port: Annotated[
        int | None,
        typer.Option("--registry-port", help="Also serve the schema registry over plain HTTP; 0 takes a free port."),
    ] = None,
    console_port: Annotated[
        int | None,
        typer.Option(
            "--console-port", help="Also serve the console in a browser, on this machine; 0 takes a free port."
        ),
    ] = None,
    trigger_modules: Annotated[
        str, typer.Option(help="Modules whose functions triggers may call (module:handler), with commas.")
    ] = "",
    fsync: Annotated[
        bool,
        typer.Option(
            "--fsync/--no-fsync",
            help="Whether what is acknowledged is on disk. Without, as with Apache Kafka's defaults, it survives the "
            "end of the process, but not a power loss.",
        ),
    ] = True,
) -> None:
    """Run Odradek durably on this machine until Ctrl-C: functions, log and groups in one process.

    Example: [bold]odradek local --data-dir ./data[/bold]
    """
    from odradek.gateway import Listener

    kafka = None
    common = Listener(
        host,
        tls_cert=kafka_tls_cert,
        tls_key=kafka_tls_key,
        sasl=kafka_sasl,
        tls_client_ca=kafka_tls_client_ca,
        plain_without_tls=plain_without_tls,
    )
    if kafka_port is not None:
        kafka = replace(common, port=kafka_port, advertised=kafka_advertised)
    elif kafka_advertised or ((kafka_tls_cert or kafka_tls_key or kafka_sasl) and registry_port is None):
        raise KafkaError(ErrorCode.INVALID_CONFIG, "the options of the Kafka port need --kafka-port")
    registry = None
    if registry_port is not None:  # with the Kafka port's certificate and logins: the same users
        registry = replace(common, port=registry_port)
    modules = tuple(module.strip() for module in trigger_modules.split(",") if module.strip())
    asyncio.run(_serve(str(data_dir), host, port, kafka, registry, console_port, modules, fsync=fsync))


async def _serve(
    data_dir: str,
    host: str,
    port: int,
    kafka: Listener | None,
    registry: Listener | None,
    console_port: int | None,
    trigger_modules: tuple[str, ...],
    *,
    fsync: bool,
) -> None:
    from rich.console import Console

    from odradek.local import LocalService
    from odradek.settings import SERVER_MEMORY, Settings

    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(
            LocalService(
                data_dir,
                host=host,
                port=port,
                settings=Settings.from_env(os.environ, **SERVER_MEMORY),
                synchronous="FULL" if fsync else "NORMAL",
                kafka=kafka,
                registry=registry,
                trigger_modules=trigger_modules,
            )
        )
        console = Console(highlight=False, soft_wrap=True)
        console.print(f"[green]ready[/green] on {service.bootstrap_servers}, data in {service.data_dir.resolve()}")
        if kafka is not None:
            console.print(f"[green]Kafka clients[/green] on {service.kafka_bootstrap_servers}")
        where = f"{service.bootstrap_servers}/registry, signed"
        if registry is not None:
            where = f"{service.registry_url} and {where}"
        console.print(f"[green]schema registry[/green] on {where}")
        folder = str(service.data_dir.resolve())
        console.print("For other shells and programs (keys are not printed: this may be a log):")
        console.print(f'  eval "$(odradek env --data-dir {shlex.quote(folder)})"', markup=False)
        console.print(f"  odradek.Producer(**odradek.local.client_config({folder!r}))", markup=False)
        if console_port is not None:
            await stack.enter_async_context(_console(service, console_port))
        await stopping.wait()
        console.print("stopping")


@asynccontextmanager
async def _console(service: LocalService, port: int) -> AsyncIterator[None]:
    """Serve the console of the service, with the owner's rights, on the loopback interface."""
    with extra("console"):
        from odradek.console.serving import serve_console
        from odradek.console.settings import ConsoleSettings
    from odradek.cli.service.console import print_more_links, show_link
    from odradek.operations.cluster import Cluster
    from odradek.operations.storage import StorePlace

    configs = {**service.client_config, "client_id": "odradek-console"}
    cluster = Cluster(configs, StorePlace.of_folder(service.data_dir))
    async with serve_console(cluster, ConsoleSettings(), port=port) as running:
        show_link(running, opens_browser=False)
        print_more_links(running)
        yield
