"""Listening sockets, and what TLS needs on them."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

from odradek.errors import ErrorCode, KafkaError

_BACKLOG = 1024


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def listening_socket(host: str, port: int, remedy: str = "choose another port") -> socket.socket:
    """Return a listening socket; port 0 takes a free one. Raises KafkaError(INVALID_CONFIG) with the remedy."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"cannot listen on {host}:{port}: {reason}; {remedy}") from None


def address_of(host: str, port: int) -> str:
    """Return `host:port` as clients on this machine connect to it."""
    host = "127.0.0.1" if host in ("", "0.0.0.0") else host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def tls_context(
    certificate: Path | str,
    key: Path | str | None,
    *,
    client_ca: Path | str | None = None,
    protocols: Sequence[str] = (),
) -> ssl.SSLContext:
    """Return what TLS needs.

    Args:
        certificate, key: PEM files; without a key the certificate's file has it.
        client_ca: PEM file of the authorities of which clients need a certificate.
        protocols: of ALPN, the preferred one first.

    Raises:
        KafkaError: INVALID_CONFIG if a file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        if protocols:
            context.set_alpn_protocols(list(protocols))
    except (OSError, ssl.SSLError) as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"the certificate cannot be used, its files must be PEM: {error}"
        ) from None
    return context
