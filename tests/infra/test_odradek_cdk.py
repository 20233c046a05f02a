"""The log in the CDK app of a team: another folder, which imports the construct from a checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATH = (ROOT, ROOT / "infra" / "library")
APP = """
from pathlib import Path
import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from odradek_cdk import Odradek

app = cdk.App(outdir="out")
shop = cdk.Stack(app, "Shop")
log = Odradek(app, "Log", stage="dev", artifacts=Path("artifacts"))
orders = lambda_.Function(
    shop, "Orders", runtime=lambda_.Runtime.PYTHON_3_13, handler="orders.handler",
    code=lambda_.Code.from_inline("def handler(event, context): ..."),
)
log.grant_client(orders)
orders.add_environment("ODRADEK_BOOTSTRAP_SERVERS", log.bootstrap_servers)
try:
    Odradek(app, "Other", stage="staging")
except ValueError as error:
    print(error)
app.synth()
"""


def test_an_app_of_a_team_has_the_log_beside_its_own_stacks(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    done = subprocess.run(
        [sys.executable, "app.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, PATH))},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "unknown stage 'staging': use dev, prod" in done.stdout
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    stacks = {
        each["properties"].get("stackName", name): each
        for name, each in manifest["artifacts"].items()
        if each["type"] == "aws:cloudformation:stack"
    }
    names = {name.removeprefix("odradek-dev-") for name in stacks if name.startswith("odradek-dev-")}
    assert {"storage", "api", "maintenance", "pipeline", "triggers", "observability"} <= names

    def template(stack: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((tmp_path / "out" / stacks[stack]["properties"]["templateFile"]).read_text())
        return found

    resources = template("Shop")["Resources"].values()
    [function] = [each["Properties"] for each in resources if each["Type"] == "AWS::Lambda::Function"]
    [role] = [each["Properties"] for each in resources if each["Type"] == "AWS::IAM::Role"]
    address = function["Environment"]["Variables"]["ODRADEK_BOOTSTRAP_SERVERS"]
    assert "odradek-dev-api" in json.dumps(address), "of the stack with the functions"
    assert "odradek-dev-api" in json.dumps(role["ManagedPolicyArns"])
    tables = [each for each in template("odradek-dev-storage")["Resources"].values() if "Table" in each["Type"]]
    tags = json.dumps([each["Properties"]["Tags"] for each in tables])
    assert '"odradek:stage"' in tags
    assert "odradek:stage" not in json.dumps(template("Shop")), "the team's own stacks are not touched"
    said = json.dumps([json.loads(path.read_text()) for path in (tmp_path / "out").glob("*.metadata.json")])
    assert "not built: dist/layer.zip" in said, "what is not built cannot be deployed by accident"
