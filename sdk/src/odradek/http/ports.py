"""The table of all ports that the wheel opens: each port acts on its row, and docs/SECURITY.md shows them.

A row is the port's guard, and no description of it: the base (port.py, asgi.py) reads the fields. Only the last two
columns of the table, and the Kafka port, are words.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.limits import FUNCTION_BINARY_BYTES_MAX, FUNCTION_PAYLOAD_BYTES_MAX

SIGNATURE = "refused: they cannot sign"
REFUSED = "refused"
OWN_PAGES = "own pages alone"
NOT_HTTP = "speak no such protocol"

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Port:
    """A listening port."""

    name: str  # in messages, the log and the table
    module: str  # that opens it
    listens: str  # started by, and the address by default
    browsers: str  # what pages get: SIGNATURE, REFUSED, OWN_PAGES, NOT_HTTP
    authentication: str  # in words
    body_bytes_max: int = 0  # a larger body is refused with 413
    content_types: tuple[str, ...] = ()  # a body of another one is refused with 415; empty: any
    guarded: tuple[str, ...] = ()  # the only paths of which pages and foreign names are refused; empty: all
    open: tuple[str, ...] = ()  # paths that need no login
    streaming: tuple[str, ...] = ()  # paths whose bodies may go on for as long as their clients like
    audits: str = ""  # prefix of the audit lines that the port writes for changes; empty: its application does
    reads: tuple[str, ...] = ()  # paths that change nothing, whatever their method
    audit: str = ""  # in words, where the application writes it


FUNCTION_URLS = Port(
    "function URLs",
    "odradek.local.server",
    "`odradek local`: 127.0.0.1:9292",
    SIGNATURE,
    "SigV4; `/metrics` from this machine needs none",
    FUNCTION_PAYLOAD_BYTES_MAX,
    guarded=("/metrics",),
    audit="each change (dispatcher, registry, triggers, served tables)",
)
REGISTRY = Port(
    "schema registry",
    "odradek.gateway.registry_port",
    "`odradek local --registry-port`, `odradek gateway --registry-listen`: no default",
    REFUSED,
    "basic, with the Kafka port's users, or clients' certificates",
    FUNCTION_BINARY_BYTES_MAX,
    content_types=(
        "application/vnd.schemaregistry.v1+json",
        "application/vnd.schemaregistry+json",
        "application/json",
        "application/octet-stream",
    ),
    audit="each change (registry), failed logins",
)
HEALTH = Port(
    "health port",
    "odradek.gateway.serve",
    "`odradek gateway --health-port`, the container: 0.0.0.0:8080",
    REFUSED,
    "none: it tells health and metrics",
    guarded=("/metrics",),
    audit="none: it changes nothing",
)
CONNECT = Port(
    "Connect REST API",
    "odradek.connect.rest.server",
    "`odradek connect run`, `odradek connect rest`: 127.0.0.1:8083",
    REFUSED,
    "basic, with a file of users, or clients' certificates; needed beyond the loopback interface",
    4 * _MIB,
    content_types=("application/json",),
    open=("/health",),
    audits="CONNECT",
)
SQL = Port(
    "stream SQL server",
    "odradek.sql.server.serving",
    "`odradek sql-server`: 127.0.0.1:8088",
    REFUSED,
    "basic, with a file of users; needed beyond the loopback interface",
    4 * _MIB,
    open=("/healthcheck", "/chc/live", "/chc/ready"),
    streaming=("/inserts-stream",),
    audits="SQL",
    reads=("/query", "/query-stream", "/close-query"),
)
CONSOLE = Port(
    "console",
    "odradek.console.serving",
    "`odradek console`: 127.0.0.1:9293",
    OWN_PAGES,
    "a link that signs in once, or OpenID Connect; then a cookie and a token in each form",
    16 * _MIB,
    audit="each change (console), and again by the service",
)
KAFKA = Port(
    "Kafka port",
    "odradek.gateway.server",
    "`odradek local --kafka-port`, `odradek gateway`: 127.0.0.1:9092; the container: 0.0.0.0:9092",
    NOT_HTTP,
    "SASL (SCRAM, PLAIN), or clients' certificates",
    audit="each administrative request (dispatcher)",
)

PORTS = (FUNCTION_URLS, REGISTRY, HEALTH, CONNECT, SQL, CONSOLE, KAFKA)
