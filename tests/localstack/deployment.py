"""Our stacks in LocalStack, by its CloudFormation, with the packaged functions.

What this edition does not have is taken out of the templates (and asserted on them in tests/infra): Glue jobs, layers.
The layer's content goes into the functions' code instead.
"""

from __future__ import annotations

import copy
import json
import platform
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from odradek.functions import environment
from odradek.protocol.api import FunctionName

from infra.app import add_stacks, new_app
from infra.artifacts import Artifacts
from infra.stages import STAGES
from tests.deployed.end_to_end import new_run
from tests.infra.conftest import read_deployment
from tools.package import Target, build

REGION = "us-east-1"
STACKS = ("storage", "api", "maintenance")  # in the order of their references
UNSUPPORTED = {"AWS::Glue::Job", "AWS::Lambda::LayerVersion"}
CODE_BUCKET, CODE_KEY = "odradek-artifacts", "functions.zip"


@dataclass(frozen=True)
class Deployed:
    """The deployed resources, by the stacks' outputs."""

    endpoint: str
    outputs: Mapping[str, str]
    run: str = field(default_factory=new_run)

    def client(self, service: str) -> Any:
        return boto3.client(
            service, REGION, endpoint_url=self.endpoint, aws_access_key_id="test", aws_secret_access_key="test"
        )

    @property
    def client_config(self) -> dict[str, Any]:
        return {"bootstrap_servers": self.outputs["CoordinatorUrl"]}


def package(folder: Path) -> Path:
    """Functions and layer in one zip, for the Python and machine that LocalStack runs on."""
    build(folder, Target("3.13", f"{platform.machine()}-manylinux_2_28"))
    bundle = folder / "bundle.zip"
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_STORED) as target:
        for name in ("functions.zip", "layer.zip"):
            with zipfile.ZipFile(folder / name) as source:
                for entry in source.infolist():
                    target.writestr(entry, source.read(entry))
    return bundle


def deploy(endpoint: str, folder: Path) -> Deployed:
    """Make the stacks."""
    deployed = Deployed(endpoint, {})
    s3 = deployed.client("s3")
    s3.create_bucket(Bucket=CODE_BUCKET)
    s3.put_object(Bucket=CODE_BUCKET, Key=CODE_KEY, Body=package(folder / "dist").read_bytes())
    app = new_app(str(folder / "cdk"))
    add_stacks(app, STAGES["dev"], Artifacts.find(folder / "nothing-built"))
    app.synth()
    templates = read_deployment(folder / "cdk").templates
    cloudformation = deployed.client("cloudformation")
    outputs: dict[str, str] = {}
    for stack in STACKS:
        name = f"odradek-dev-{stack}"
        cloudformation.create_stack(
            StackName=name, TemplateBody=_deployable(templates[stack]), Capabilities=["CAPABILITY_NAMED_IAM"]
        )
        cloudformation.get_waiter("stack_create_complete").wait(
            StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 120}
        )
        described = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
        outputs |= {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])}
    deployed = Deployed(endpoint, outputs)
    _tell_addresses(deployed)
    return deployed


def _deployable(template: dict[str, Any]) -> str:
    template = copy.deepcopy(template)
    template.pop("Rules", None)  # of the bootstrap stack, which is not there
    template.get("Parameters", {}).pop("BootstrapVersion", None)
    unsupported = {key for key, resource in template["Resources"].items() if resource["Type"] in UNSUPPORTED}
    for key in unsupported:
        del template["Resources"][key]
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Lambda::Function":
            properties = resource["Properties"]
            properties["Code"] = {"S3Bucket": CODE_BUCKET, "S3Key": CODE_KEY}
            properties["Architectures"] = ["x86_64" if platform.machine() == "x86_64" else "arm64"]
            properties.pop("Layers", None)
    outputs = template.get("Outputs", {}).items()
    template["Outputs"] = {
        key: output for key, output in outputs if not any(name in json.dumps(output) for name in unsupported)
    }
    return json.dumps(template)


def _tell_addresses(deployed: Deployed) -> None:
    """On AWS the coordinator's own address is https:// and the host of the request; here it has a port and no TLS."""
    functions = deployed.client("lambda")
    urls = {name: deployed.outputs[f"{name.value.capitalize()}Url"] for name in FunctionName}
    name = "odradek-dev-coordinator"
    variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    variables[environment.FUNCTION_URLS] = environment.format_function_urls(urls)
    functions.update_function_configuration(FunctionName=name, Environment={"Variables": variables})
    functions.get_waiter("function_updated_v2").wait(FunctionName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    version = functions.publish_version(FunctionName=name)["Version"]  # the URL is the alias's, of one version
    functions.update_alias(FunctionName=name, Name="live", FunctionVersion=version)
