"""docs/troubleshooting.md lists every error code, with what the code itself says of it."""

from __future__ import annotations

import re
from pathlib import Path

from odradek.errors import ErrorCode

PAGE = (Path(__file__).parents[3] / "docs" / "troubleshooting.md").read_text()
ROWS = {
    name: (int(number), retryable == "yes")
    for name, number, retryable in re.findall(r"^\| `([A-Z_]+)` \| (-?\d+) \| (yes|no) \|", PAGE, re.MULTILINE)
}


def test_every_error_code_is_on_the_page() -> None:
    expected = {code.name: (code.value, code.is_retryable) for code in ErrorCode if code is not ErrorCode.NONE}
    assert expected == ROWS


def test_the_codes_that_leave_the_outcome_unknown_are_named() -> None:
    said = re.search(r"leave the outcome unknown: ([A-Z_, and\n]+)\.", PAGE)
    assert said is not None
    unknown = {code.name for code in ErrorCode if not code.has_no_side_effects and code is not ErrorCode.NONE}
    assert set(re.findall(r"[A-Z_]{5,}", said[1])) == unknown
