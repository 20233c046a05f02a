"""The table of ports: the page shows what the code does, and each row is the port of its module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from odradek.http import ports
from odradek.http.ports import NOT_HTTP, PORTS, Port

from tools.ports_reference import PAGE, filled

SOURCES = Path(__file__).parents[3] / "sdk" / "src"


def test_the_page_shows_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert filled(text) == text, "run `make reference`"
    assert all(f"| {port.name} |" in text for port in PORTS)


@pytest.mark.parametrize("port", [port for port in PORTS if port.browsers != NOT_HTTP], ids=lambda port: port.name)
def test_a_module_opens_the_port_of_its_row(port: Port) -> None:
    [name] = [name for name, row in vars(ports).items() if row is port]
    opens = re.compile(rf"\b(Http|Asgi)Port\(\s*{name},")
    modules = [path for path in SOURCES.rglob("*.py") if opens.search(path.read_text(encoding="utf-8"))]
    assert modules == [SOURCES / Path(*port.module.split(".")).with_suffix(".py")]
