"""Lines of the audit log for requests of HTTP ports whose applications write none, and for failed logins.

{"audit": "CONNECT DELETE /connectors/orders", "principal": "User:ada", "client_host": "192.0.2.7", "outcome": 204}
"""

from __future__ import annotations

import logging

from odradek.http.ports import Port

logger = logging.getLogger("odradek.audit")

_SAFE = ("GET", "HEAD", "OPTIONS")


def write_change(port: Port, method: str, path: str, principal: str, client_host: str, status: int) -> None:
    """Write the line of a request that may have changed something; do nothing for others."""
    if port.audits and method not in _SAFE and path not in port.reads:
        _write(f"{port.audits} {method} {path}", principal, client_host, status)


def write_failed_login(port: Port, client_host: str) -> None:
    """Write the line of a failed login, without the name: it may be a password in the wrong field."""
    _write(f"LOGIN {port.name}", "User:ANONYMOUS", client_host, 401)


def _write(audit: str, principal: str, client_host: str, outcome: int) -> None:
    audit = ascii(audit[:200])[1:-1]  # a path is a caller's text: no line breaks of it
    line = {"audit": audit, "principal": principal, "client_host": client_host, "outcome": outcome}
    logger.info("audit %(audit)s by %(principal)s", line)
