"""Requests that a page in a browser may have sent.

A page in a browser can send requests to any address that the browser reaches, and read the responses of a host whose
name resolves to it ("DNS rebinding"). So a port that does not require a signature refuses requests that a browser sends
for a page, a Host that a third party may own, and, where its clients name one, any other content type of a body: a page
may send some without a preflight request. Source: Fetch standard, "CORS-safelisted request-header".
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping

from odradek.http.ports import Port

SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Of each response that does not set them itself."""

STRICT_TRANSPORT = {"Strict-Transport-Security": "max-age=31536000"}
"""Of each response over TLS."""


def refusal(port: Port, headers: Mapping[str, str], *, names: Collection[str], has_logins: bool) -> str | None:
    """Return why a request is refused that a page may have sent; None for others.

    Args:
        headers: looked up by names in lower case, or without regard to case.
        names: host names under which the port is known.
        has_logins: no other name leads a page past a login, so any name is taken.
    """
    if from_browser(headers):
        return f"The {port.name} refuses requests of web pages (the request has an Origin)"
    if not has_logins and is_foreign_host(headers, names):
        host = (headers.get("host") or "")[:100]
        return (
            f"The {port.name} does not answer to the name {host!r}: use its address, advertise that name, or require "
            "logins"
        )
    return None


def from_browser(headers: Mapping[str, str]) -> bool:
    """Return True if a browser sends the request for a page, as its Origin or Sec-Fetch-Site header shows."""
    return "origin" in headers or (headers.get("sec-fetch-site") or "none").lower() != "none"


def is_foreign_host(headers: Mapping[str, str], own_names: Collection[str]) -> bool:
    """Return True if the request is addressed to a name that a third party may own, or its Host is invalid.

    An IP address cannot be made to resolve elsewhere, and a name without a dot cannot be registered.
    """
    host = host_of(headers.get("host") or "")
    if host is None:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "." in host and host not in own_names
    return False


def host_of(text: str) -> str | None:
    """Return the host of a Host header, in lower case; None if it is invalid."""
    if text.startswith("["):
        host, bracket, _ = text[1:].partition("]")
        return host.lower() if bracket and host else None
    host = text.partition(":")[0].lower().rstrip(".")
    return host or None
