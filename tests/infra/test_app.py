"""Writing templates needs nothing built; deploying does. Which Node, which stage, which artifacts."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from odradek.settings import Settings

from infra.node import bundled_node, choose_node
from infra.stages import STAGES, Stage, stage_of
from tests.infra.conftest import Deployment
from tools.distributions import distributions

STACKS = ("storage", "api", "maintenance", "triggers", "pipeline", "observability")
ROOT = Path(__file__).resolve().parents[2]


def built(root: Path) -> Path:
    """A repository in which `make package` has run."""
    dist = root / "dist"
    dist.mkdir()
    for name in ("layer.zip", "functions.zip", "odradek.gluewheels.zip"):
        with zipfile.ZipFile(dist / name, "w") as archive:
            archive.writestr(name, "")
    for distribution in distributions().values():
        (dist / f"{distribution.wheel}-9.8.7-py3-none-any.whl").write_bytes(b"wheel")
    return root


def test_what_is_not_built_cannot_be_deployed(dev: Deployment) -> None:
    assert dev.errors["storage"] == []
    for stack in ("api", "maintenance", "pipeline"):
        (error,) = dev.errors[stack]
        assert "dist/layer.zip, dist/functions.zip, dist/odradek.gluewheels.zip, dist/odradek*.whl" in error
        assert "make package" in error


@pytest.mark.slow
def test_what_is_built_can_be_deployed(synthesize: Callable[..., Deployment], tmp_path: Path) -> None:
    """Slow: CDK makes all stacks once more, with assets."""
    deployment = synthesize("dev", built(tmp_path))
    assert deployment.errors == {stack: [] for stack in STACKS}
    paths = [file["source"]["path"] for file in deployment.assets["api"].values()]
    assert len([path for path in paths if path.endswith(".zip")]) == 2


def test_one_missing_artifact_is_enough_to_refuse(synthesize: Callable[..., Deployment], tmp_path: Path) -> None:
    (built(tmp_path) / "dist" / "layer.zip").unlink()
    (error,) = synthesize("dev", tmp_path).errors["api"]
    assert error.startswith("not built: dist/layer.zip. ")


def test_the_templates_of_a_fresh_clone_are_the_same_every_time(
    synthesize: Callable[..., Deployment], dev: Deployment
) -> None:
    assert synthesize("dev").templates == dev.templates


def test_stages_differ_in_names_and_a_wrong_one_lists_the_known(dev: Deployment, prod: Deployment) -> None:
    assert {function["FunctionName"].split("-")[1] for function in dev.functions().values()} == {"dev"}
    assert {function["FunctionName"].split("-")[1] for function in prod.functions().values()} == {"prod"}
    with pytest.raises(SystemExit, match=r"unknown stage 'staging': use -c stage=dev\|prod"):
        stage_of("staging")


def test_a_stage_whose_functions_would_die_before_they_can_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="must exceed request_timeout_ms"):
        Stage("x", False, 7, 15, 2, settings=Settings(request_timeout_ms=30_000))


def test_a_stage_whose_coordinator_lacks_the_right_is_refused() -> None:
    with pytest.raises(ValueError, match="may not create topics"):
        Stage("x", False, 7, 15, 2, settings=Settings(auto_create_topics=True))


def test_node_comes_with_the_environment_unless_one_is_named() -> None:
    environ = {"PATH": "/nonexistent"}
    assert choose_node(environ) == bundled_node() == environ["JSII_NODE"]
    assert choose_node({"JSII_NODE": "/opt/node", "PATH": ""}) == "/opt/node"


@pytest.mark.slow
def test_the_command_writes_the_stage_that_it_is_asked_for(tmp_path: Path) -> None:
    """Slow: CDK starts in a process of its own."""
    environ = {
        "PATH": "/usr/bin:/bin",
        "CDK_OUTDIR": str(tmp_path),
        "CDK_CONTEXT_JSON": json.dumps({"stage": "prod"}),
        "CDK_VALIDATION": "false",  # done by the other tests; starting CDK's rule engine takes seconds
    }
    run = subprocess.run(
        [sys.executable, "-m", "infra.app"], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=240
    )
    assert run.returncode == 0, run.stderr
    names = {path.name for path in tmp_path.glob("*.template.json")}
    assert names == {f"odradek-prod-{stack}.template.json" for stack in STACKS}


def test_every_stage_is_named_as_it_is_chosen() -> None:
    assert all(name == stage.name for name, stage in STAGES.items())


def test_collecting_these_tests_does_not_start_cdk() -> None:
    # Each process of a test run collects all of them, and aws_cdk costs it half a minute.
    names = [f"tests.infra.{path.stem}" for path in Path(__file__).parent.glob("test_*.py")]
    code = f"import sys; {'; '.join(f'import {name}' for name in names)}; sys.exit('aws_cdk' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
