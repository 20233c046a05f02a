"""The templates of both stages, made once a session: jsii takes seconds to start."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

Resource = dict[str, Any]


@dataclass(frozen=True)
class Deployment:
    """One stage's templates by the last part of their stacks' names, and what is said against deploying them."""

    templates: dict[str, dict[str, Any]]
    errors: dict[str, list[str]]
    assets: dict[str, dict[str, Any]]  # the files that each stack has uploaded
    images: dict[str, dict[str, Any]]  # the images that each stack has built

    def resources(self, stack: str, resource_type: str) -> dict[str, Resource]:
        """The properties (and more) of one stack's resources of a type, by logical id."""
        return {
            key: resource
            for key, resource in self.templates[stack]["Resources"].items()
            if resource["Type"] == resource_type
        }

    def only(self, stack: str, resource_type: str) -> Resource:
        """The one resource of that type."""
        (resource,) = self.resources(stack, resource_type).values()
        return resource

    def functions(self) -> dict[str, Resource]:
        """The properties of every function by its name without the stage."""
        made = (*self.resources("api", "AWS::Lambda::Function").values(),)
        made += (*self.resources("maintenance", "AWS::Lambda::Function").values(),)
        made += (*self.resources("triggers", "AWS::Lambda::Function").values(),)
        return {function["Properties"]["FunctionName"].split("-", 2)[2]: function["Properties"] for function in made}


def as_list(value: Any) -> list[Any]:
    """Return a value of IAM, which may be one or a list, as a list."""
    return value if isinstance(value, list) else [value]


def read_deployment(out: Path) -> Deployment:
    """Read a cloud assembly's files, as the CDK command line does."""
    templates, errors, assets, images = {}, {}, {}, {}
    for path in out.glob("*.template.json"):
        stack = path.name.removesuffix(".template.json")
        name = stack.split("-")[-1]
        templates[name] = json.loads(path.read_text())
        uploaded = json.loads((out / f"{stack}.assets.json").read_text())
        assets[name], images[name] = uploaded["files"], uploaded["dockerImages"]
        metadata = json.loads((out / f"{stack}.metadata.json").read_text())
        errors[name] = [entry["data"] for entry in metadata[f"/{stack}"] if entry["type"] == "aws:cdk:error"]
    return Deployment(templates, errors, assets, images)


@pytest.fixture(scope="session")
def synthesize_stage(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Deployment]:
    """Write the templates of a stage, with some context; from a root that has no dist/, as on a fresh clone."""

    from infra.app import add_stacks, new_app  # not before it is needed: aws_cdk takes seconds to import
    from infra.artifacts import Artifacts

    def make(
        stage: Any, context: Mapping[str, str] | None = None, root: Path | None = None, *, tables: bool = False
    ) -> Deployment:
        out = tmp_path_factory.mktemp(f"cdk-{stage.name}")
        app = new_app(str(out))
        for key, value in (context or {}).items():
            app.node.set_context(key, value)
        add_stacks(app, stage, Artifacts.find(root or tmp_path_factory.mktemp("fresh"), tables=tables))
        app.synth()
        return read_deployment(out)

    return make


@pytest.fixture(scope="session")
def synthesize(synthesize_stage: Callable[..., Deployment]) -> Callable[..., Deployment]:
    """The same by the stage's name."""
    from infra.stages import STAGES

    return lambda stage, root=None: synthesize_stage(STAGES[stage], None, root)


@pytest.fixture(scope="session")
def dev(synthesize: Callable[..., Deployment]) -> Deployment:
    return synthesize("dev")


@pytest.fixture(scope="session")
def with_tables(synthesize_stage: Callable[..., Deployment]) -> Deployment:
    """dev with `-c tables=true`."""
    from infra.stages import STAGES

    return synthesize_stage(STAGES["dev"], tables=True)


@pytest.fixture(scope="session")
def prod(synthesize: Callable[..., Deployment]) -> Deployment:
    return synthesize("prod")


@pytest.fixture(scope="session")
def with_gateway(synthesize_stage: Callable[..., Deployment]) -> Callable[[dict[str, str]], Deployment]:
    """Return prod's templates with what the context says of a gateway, written once for each context."""
    from infra.stages import STAGES

    written: dict[str, Deployment] = {}

    def make(context: dict[str, str]) -> Deployment:
        key = json.dumps(context, sort_keys=True)
        if key not in written:
            written[key] = synthesize_stage(STAGES["prod"], context)
        return written[key]

    return make


GATEWAY_CONTEXT = {
    "gateway_vpc_id": "vpc-0123456789abcdef0",
    "gateway_subnet_ids": "subnet-0123456789abcdef0,subnet-0123456789abcdef1",
    "gateway_tls_secret_arn": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:kafka-tls-AbCdEf",
    "gateway_client_cidr": "192.0.2.0/24",
    "gateway_advertised": "kafka.example.com",
}


@pytest.fixture(scope="session")
def gateway(with_gateway: Callable[[dict[str, str]], Deployment]) -> Deployment:
    """With the documented options."""
    return with_gateway(GATEWAY_CONTEXT)


@pytest.fixture(scope="session")
def optioned_gateway(with_gateway: Callable[[dict[str, str]], Deployment]) -> Deployment:
    """With every option."""
    more = {"tasks": "3", "tasks_max": "9", "architecture": "arm64", "endpoints": "172.31.0.0/16"}
    return with_gateway({**GATEWAY_CONTEXT, **{f"gateway_{key}": value for key, value in more.items()}})
