"""`python -m odradek.gateway`: the Kafka port over AWS, as a container runs it.

    variable                              meaning; default
    those of functions/environment.py     the store (ODRADEK_LOG_TABLE ...), and settings
    ODRADEK_GATEWAY_LISTEN                host:port to listen on; 0.0.0.0:9092
    ODRADEK_GATEWAY_ADVERTISED            host:port that clients connect to, if it is another
    ODRADEK_GATEWAY_TLS_CERT, _TLS_KEY    PEM files; or _TLS_CERT_PEM, _TLS_KEY_PEM: their text, for secrets
    ODRADEK_GATEWAY_TLS_CLIENT_CA, .._PEM PEM file or text: clients need a certificate from one of these CAs
    ODRADEK_GATEWAY_SASL                  true: clients must log in (`odradek users create`)
    ODRADEK_GATEWAY_PLAIN_WITHOUT_TLS     true: also with a password in clear text
    ODRADEK_GATEWAY_BROKER_ID             unique id of a gateway that leads the partitions written to; 0: none
    ODRADEK_GATEWAY_RACK                  zone, as consumers name theirs (client.rack); that of an ECS task
    ODRADEK_GATEWAY_REGISTRY_LISTEN       host:port for the schema registry, same TLS and logins; unset: none
    ODRADEK_GATEWAY_METRICS               emf: one line a minute with metrics for CloudWatch; unset: none
    ODRADEK_GATEWAY_REGISTRY_ADVERTISED   host:port that its clients connect to, if it is a name with a dot
    ODRADEK_GATEWAY_HEALTH_PORT           answers GET with 200 while serving, 503 while stopping; 8080, 0: none

It prints one JSON line when it is ready. SIGTERM and SIGINT stop it after pending requests have been answered.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from odradek.adapters.aws import open_queue
from odradek.errors import ErrorCode, KafkaError
from odradek.functions.environment import Environment
from odradek.functions.logs import log_as_json
from odradek.functions.metering import InvocationMeter
from odradek.functions.telemetry import write_stdout
from odradek.gateway.cloudwatch import KafkaTelemetry
from odradek.gateway.serve import Ports, serve
from odradek.gateway.server import Listener, host_and_port
from odradek.model.cluster import FLEET_BROKER_ID
from odradek.ports.meter import Usage
from odradek.ports.task_queue import TaskQueue
from odradek.settings import SERVER_MEMORY, Settings
from odradek.system import SystemRng

logger = logging.getLogger(__name__)

_PREFIX = "ODRADEK_GATEWAY_"
_METADATA_TIMEOUT_S = 2.0


def listener_from_env(environ: Mapping[str, str]) -> Listener:
    """Return the Kafka port's listener. Raises KafkaError(INVALID_CONFIG) that names the variable."""
    host, port = host_and_port(_PREFIX + "LISTEN", environ.get(_PREFIX + "LISTEN", "0.0.0.0:9092"))
    cert, key = (_file(environ, name) for name in ("TLS_CERT", "TLS_KEY"))
    return Listener(
        host=host,
        port=port,
        advertised=environ.get(_PREFIX + "ADVERTISED") or None,
        tls_cert=cert,
        tls_key=key,
        sasl=_flag(environ, "SASL"),
        tls_client_ca=_file(environ, "TLS_CLIENT_CA"),
        plain_without_tls=_flag(environ, "PLAIN_WITHOUT_TLS"),
        rack=environ.get(_PREFIX + "RACK") or _zone_of_task(environ),
    )


def _zone_of_task(environ: Mapping[str, str]) -> str | None:
    """Return the zone of the ECS task that this is, such as us-east-1a (task metadata endpoint, version 4)."""
    url = environ.get("ECS_CONTAINER_METADATA_URI_V4")
    if not url:
        return None
    try:
        with urllib.request.urlopen(f"{url}/task", timeout=_METADATA_TIMEOUT_S) as answer:
            zone = json.load(answer).get("AvailabilityZone")
    except (OSError, ValueError) as error:
        logger.warning("the zone of this task is unknown, so consumers find no gateway of their own zone: %s", error)
        return None
    return zone if isinstance(zone, str) and zone else None


def _flag(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(_PREFIX + name, "").lower() in ("true", "1", "yes")


def _file(environ: Mapping[str, str], name: str) -> Path | None:
    """Return the file that a variable names, or a private file with the text of the variable's _PEM sibling."""
    path, text = environ.get(_PREFIX + name), environ.get(f"{_PREFIX}{name}_PEM")
    if path or not text:
        return Path(path) if path else None
    with tempfile.NamedTemporaryFile("w", prefix="odradek-", suffix=".pem", delete=False) as file:
        file.write(text)
    return Path(file.name)


def registry_listener_from_env(environ: Mapping[str, str]) -> Listener | None:
    """Return the schema registry's listener; None if it has none. Raises KafkaError(INVALID_CONFIG)."""
    text = environ.get(_PREFIX + "REGISTRY_LISTEN")
    if not text:
        return None
    host, port = host_and_port(_PREFIX + "REGISTRY_LISTEN", text)
    advertised = environ.get(_PREFIX + "REGISTRY_ADVERTISED") or None
    return replace(listener_from_env(environ), host=host, port=port, advertised=advertised)


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(_PREFIX + name) or str(default)
    if not text.isdigit():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{_PREFIX}{name} must be a number, not {text!r}")
    return int(text)


def _wants_metrics(environ: Mapping[str, str]) -> bool:
    """Return True if metrics are to be written. Raises KafkaError(INVALID_CONFIG)."""
    kind = environ.get(_PREFIX + "METRICS", "")
    if kind not in ("", "emf"):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{_PREFIX}METRICS must be emf or unset, not {kind!r}")
    return kind == "emf"


async def serve_from_env(environ: Mapping[str, str]) -> None:
    """Serve until SIGTERM or SIGINT. Raises KafkaError(INVALID_CONFIG)."""
    environment = Environment.from_env(environ)
    settings = Settings.from_env(environ, **SERVER_MEMORY)
    ports = Ports(
        listener_from_env(environ),
        registry_listener_from_env(environ),
        health_port=_number(environ, "HEALTH_PORT", 8080),
        broker_id=_number(environ, "BROKER_ID", FLEET_BROKER_ID),
    )
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    meter = InvocationMeter()
    store = environment.open_store(meter)

    wakes: TaskQueue | None = None
    if environment.wake_queue_url is not None:
        wakes = open_queue(
            environment.wake_queue_url, region=environment.region, endpoint_url=environment.endpoint_url, meter=meter
        )

    def billed() -> Usage:
        return meter.total.usage

    await serve(
        store,
        store.objects,
        ports,
        settings,
        clock=store.clock,
        rng=SystemRng(),
        stopping=stopping,
        ready=lambda addresses: print(json.dumps({**addresses, "pid": os.getpid()}), flush=True),
        billed=billed,
        telemetry=KafkaTelemetry(settings.cluster_id, clock=store.clock, billed=billed, write_line=write_stdout)
        if _wants_metrics(environ)
        else None,
        wakes=wakes,
        meter=meter,
    )


def main() -> int:
    """Run until stopped. Return the exit code: 2, after one line with the reason, if it cannot start."""
    log_as_json(lambda line: print(line, file=sys.stderr))
    try:
        asyncio.run(serve_from_env(os.environ))
    except KafkaError as error:
        print(f"odradek: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
