"""`python -m odradek.local`: the embedded service as a process.

Prints one JSON line when it is ready, `{"bootstrap_servers", "kafka" (with --kafka-port), "data_dir", "credentials",
"pid"}`; with --log also the functions' log lines. SIGTERM and SIGINT end it in order; SIGKILL loses nothing that was
acknowledged.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from odradek.child_process import end_with_parent
from odradek.errors import KafkaError
from odradek.functions.logs import log_as_json
from odradek.functions.telemetry import write_nowhere, write_stdout
from odradek.gateway import Listener
from odradek.local.credentials import FILE_NAME
from odradek.local.server import FunctionLimits
from odradek.local.service import LocalService
from odradek.settings import SERVER_MEMORY, Settings


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal ends the service. Return 2 after one line of error if it cannot start."""
    options = _parser().parse_args(arguments)
    end_with_parent(os.environ)
    try:
        asyncio.run(_serve(options))
    except KafkaError as error:
        print(f"odradek: {error}", file=sys.stderr)
        return 2
    return 0


async def _serve(options: argparse.Namespace) -> None:
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    write_line = write_stdout if options.log else write_nowhere
    log_as_json(_write_stderr)
    async with LocalService(
        options.data_dir,
        host=options.host,
        port=options.port,
        settings=Settings.from_env(os.environ, **SERVER_MEMORY),
        limits=FunctionLimits(options.memory_mb, options.timeout_s),
        synchronous=options.synchronous,
        write_line=write_line,
        kafka=None if options.kafka_port is None else Listener(options.host, options.kafka_port),
        registry=None if options.registry_port is None else Listener(options.host, options.registry_port),
    ) as service:
        write_stdout(
            json.dumps(
                {
                    "bootstrap_servers": service.bootstrap_servers,
                    **({} if options.kafka_port is None else {"kafka": service.kafka_bootstrap_servers}),
                    **({} if options.registry_port is None else {"registry": service.registry_url}),
                    "data_dir": str(service.data_dir.resolve()),
                    "credentials": str((service.data_dir / FILE_NAME).resolve()),
                    "pid": os.getpid(),
                }
            )
        )
        reporting = asyncio.create_task(_report_usage(service, options.usage_file)) if options.usage_file else None
        await stopping.wait()
        if reporting is not None:
            reporting.cancel()
            _write_usage(service, options.usage_file)


async def _report_usage(service: LocalService, path: Path) -> None:
    """Write the billable usage of all invocations once a second, so that SIGKILL loses at most a second of it."""
    while True:
        _write_usage(service, path)
        await asyncio.sleep(1)


def _write_usage(service: LocalService, path: Path) -> None:
    """Write `{"usage": ports.meter.Usage, "calls": {operation: count}}` atomically."""
    total = service.meter.total
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(json.dumps({"usage": asdict(total.usage), "calls": dict(total.calls)}))
    fresh.replace(path)


def _write_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")


def _parser() -> argparse.ArgumentParser:
    limits = FunctionLimits()
    parser = argparse.ArgumentParser(prog="python -m odradek.local", description="Run the embedded service.")
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of the store")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (0: a free one)")
    parser.add_argument("--kafka-port", type=int, help="also serve Kafka clients on this port (0: a free one)")
    parser.add_argument("--registry-port", type=int, help="serve the schema registry over plain HTTP (0: a free port)")
    parser.add_argument("--memory-mb", type=int, default=limits.memory_mb, help="memory of a function, for its cost")
    parser.add_argument("--timeout-s", type=float, default=limits.timeout_s, help="time limit of a function")
    parser.add_argument("--synchronous", choices=["FULL", "NORMAL"], default="FULL", help="FULL survives power loss")
    parser.add_argument("--usage-file", type=Path, help="write the billable usage of the run to this file, as JSON")
    parser.add_argument("--log", action="store_true", help="print the functions' log lines")
    return parser


if __name__ == "__main__":
    sys.exit(main())
