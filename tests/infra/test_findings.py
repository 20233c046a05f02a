"""cdk-nag's AwsSolutions rules: every finding has a written reason, and every reason a finding."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from infra.findings import ACKNOWLEDGED
from tests.infra.test_gateway import CONTEXT, gateway_app


def findings(out: Path) -> set[str]:
    from aws_cdk import Validations  # seconds to import
    from cdk_nag import AwsSolutionsChecks

    app = gateway_app(str(out), CONTEXT)  # with the optional stack
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    with suppress(RuntimeError):  # synth fails on any finding; the report says which
        app.synth()
    report = json.loads((out / "validation-report.json").read_text())
    return {each["ruleName"] for plugin in report["pluginReports"] for each in plugin["violations"]}


def test_every_finding_has_a_reason_and_every_reason_a_finding(tmp_path: Path) -> None:
    found = findings(tmp_path)
    assert found, "the rules did not run"
    unexplained = {rule for rule in found if not rule.startswith(tuple(ACKNOWLEDGED))}
    assert unexplained == set()
    assert {reason for reason in ACKNOWLEDGED if not any(rule.startswith(reason) for rule in found)} == set()
