"""`make audit` never calls a list clean that it could not ask about."""

from __future__ import annotations

from tools.audit_dependencies import report

CLEAN = {"name": "a", "version": "1", "vulns": []}
SKIPPED = {"name": "b", "skip_reason": "Dependency not found"}
BAD = {"name": "c", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}


def test_what_it_says() -> None:
    assert report([CLEAN]) == ("1 dependencies, no known vulnerability", 0)
    assert report([CLEAN, SKIPPED]) == ("not audited, the service does not know them: 1 of 2", 2)
    text, code = report([CLEAN, SKIPPED, BAD])
    assert code == 1
    assert "c 2: CVE-1, fixed in 3" in text
