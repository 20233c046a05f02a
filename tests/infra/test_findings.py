"""cdk-nag's AwsSolutions rules: every finding has a written reason, and every reason a finding."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from infra.findings import ACKNOWLEDGED
from tests.infra.conftest import GATEWAY_CONTEXT


def findings(out: Path) -> set[str]:
    from aws_cdk import Validations  # seconds to import
    from cdk_nag import AwsSolutionsChecks

    from infra.app import add_stacks, new_app
    from infra.artifacts import Artifacts
    from infra.stages import STAGES, ConnectOptions

    app = new_app(str(out))
    for key, value in {**GATEWAY_CONTEXT, "gateway_endpoints": "172.31.0.0/16", "gateway_tasks_max": "4"}.items():
        app.node.set_context(key, value)  # with the optional stack
    add_stacks(app, replace(STAGES["prod"], connect=ConnectOptions()), Artifacts.find(out / "nothing-built"))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    with suppress(RuntimeError):  # synth fails on any finding; the report says which
        app.synth()
    report = json.loads((out / "validation-report.json").read_text())
    return {violation["ruleName"] for plugin in report["pluginReports"] for violation in plugin["violations"]}


def test_every_finding_has_a_reason_and_every_reason_a_finding(tmp_path: Path) -> None:
    findings_now = findings(tmp_path)
    assert findings_now, "the rules did not run"
    unexplained = {rule for rule in findings_now if not rule.startswith(tuple(ACKNOWLEDGED))}
    assert unexplained == set()
    assert {reason for reason in ACKNOWLEDGED if not any(rule.startswith(reason) for rule in findings_now)} == set()
