"""Decision records have one form: number and title, status, date, context, decision, rejected options, consequences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DECISIONS = Path(__file__).parents[3] / "docs" / "decisions"
RECORDS = sorted(DECISIONS.glob("[0-9]*.md"))
SECTIONS = ["Context", "Decision", "Rejected options", "Consequences"]
LINES_MAX = 100  # two printed pages
STATUS = r"accepted|proposed|rejected|superseded by \[\d{4}\]\(\d{4}-[\w-]+\.md\)"


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_has_all_its_parts(path: Path) -> None:
    text = path.read_text()
    head = re.match(rf"# (\d{{4}}) .+\n\n- Status: (?:{STATUS})\n- Date: \d{{4}}-\d\d-\d\d\n", text)
    assert head, "number and title, then status and date"
    assert head[1] == path.name[:4]
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert text.count("\n") <= LINES_MAX


def test_numbers_are_given_once() -> None:
    numbers = [path.name[:4] for path in RECORDS]
    assert len(set(numbers)) == len(numbers)
