"""`odradek local`: the embedded service in the foreground."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Annotated

import typer
from rich.console import Console

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_PORT, DataDir
from odradek.settings import Settings


def local(
    data_dir: DataDir = DEFAULT_DATA_DIR,
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 takes a free one.")] = DEFAULT_PORT,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
) -> None:
    """Run Odradek on this machine, durably, until Ctrl-C: functions, log and groups in one process.

    Example: [bold]odradek local --data-dir ./data[/bold]
    """
    asyncio.run(_serve(str(data_dir), host, port))


async def _serve(data_dir: str, host: str, port: int) -> None:
    from odradek.local import LocalService

    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with LocalService(data_dir, host=host, port=port, settings=Settings.from_env(os.environ)) as service:
        console = Console(highlight=False, soft_wrap=True)
        console.print(f"[green]ready[/green] on {service.bootstrap_servers}, data in {service.data_dir.resolve()}")
        console.print("For other shells and clients:")
        lines = {"ODRADEK_BOOTSTRAP_SERVERS": service.bootstrap_servers, **service.credentials.as_environment()}
        for name, value in lines.items():
            console.print(f"  export {name}={value}")
        await stopping.wait()
        console.print("stopping")
