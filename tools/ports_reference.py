"""Fill the table of ports in docs/SECURITY.md from the rows that the ports act on. `make reference`.

tests/unit/http/test_ports.py compares the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from odradek.http.ports import NOT_HTTP, PORTS, Port

from tools.reference import table

PAGE = Path(__file__).parent.parent / "docs" / "SECURITY.md"
MARK = re.compile(r"(<!-- ports -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """Return the page with its table written from the code."""
    return MARK.sub(lambda match: f"{match[1]}\n{table(_rows())}\n{match[2]}", text)


def _rows() -> Iterator[tuple[str, ...]]:
    yield "port", "opened by: address", "pages of browsers", "logins", "largest body", "audit lines"
    for port in PORTS:
        size = f"{port.body_bytes_max / 1024 / 1024:.3g} MiB" if port.body_bytes_max else "none is read"
        size = "100 MiB a request" if port.browsers == NOT_HTTP else size
        yield port.name, port.listens, _browsers(port), _logins(port), size, _audit(port)


def _browsers(port: Port) -> str:
    text = port.browsers
    if port.guarded:
        text += f"; {', '.join(f'`{path}`' for path in port.guarded)}: refused"
    if port.content_types:
        text += "; a body needs " + " or ".join(f"`{content_type}`" for content_type in port.content_types)
    return text


def _logins(port: Port) -> str:
    needs_none = f"; {', '.join(f'`{path}`' for path in port.open)}: none" if port.open else ""
    return port.authentication + needs_none


def _audit(port: Port) -> str:
    return f"each change (`{port.audits}`), failed logins" if port.audits else port.audit


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"written: {PAGE}")


if __name__ == "__main__":
    main()
