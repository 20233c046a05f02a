"""axe-core, the accessibility checker of Deque: fetched once from npm, checked against its digest, never shipped."""

from __future__ import annotations

import io
import tarfile
from typing import Any

from playwright.sync_api import Page

from tests.browser.chromium import HOME
from tests.browser.npm import packed

PACKAGE = "axe-core@4.10.3"
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
INTEGRITY = "sha512-Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="


def source() -> str:
    """Return axe's script."""
    path = HOME / "axe.min.js"
    if not path.exists():
        data = packed(PACKAGE, INTEGRITY, HOME)
        with tarfile.open(fileobj=io.BytesIO(data)) as package:
            member = package.extractfile("package/axe.min.js")
            assert member is not None
            path.write_bytes(member.read())
    return path.read_text(encoding="utf-8")


def violations(page: Page) -> list[str]:
    """Return what the page lacks of WCAG 2.2 AA, as axe can tell: rule, element, why."""
    page.evaluate(source() + "; undefined")
    found: dict[str, Any] = page.evaluate(
        "(rules) => axe.run(document, {runOnly: {type: 'tag', values: rules}, resultTypes: ['violations']})", _RULES
    )
    return [
        f"{each['id']}: {node['target']}: {node['failureSummary'][:200]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
