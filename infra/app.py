"""Composition root of the infrastructure: `python -m infra.app` writes the templates of one stage to cdk.out.

    -c stage=dev|prod   (cdk)    or    make synth STAGE=prod
    -c tags=team=flights,...     the owner's tags, on every resource
    -c tables=true               maintainers write columnar history and keep Iceberg tables: a layer for their function
    -c memory_mb=produce=512,... of functions (memory.py)
    -c capacity_...              tables with provisioned capacity (capacity.py)
    -c gateway_...               the gateway stack as well (stacks/gateway.py)
    -c console_...               the console stack as well (stacks/console.py)

It needs neither an account nor a network: the stacks use the account and region of the deployment. The CDK command line
runs the same module (cdk.json) and passes the output directory in CDK_OUTDIR.
"""

from __future__ import annotations

import json
import os
import sys

from aws_cdk import App, Tags
from constructs import Construct, Node

from infra.artifacts import ROOT, Artifacts
from infra.capacity import with_capacities
from infra.memory import with_memory
from infra.stacks.api import ApiStack
from infra.stacks.connect import ConnectStack
from infra.stacks.console import ConsoleOptions, ConsoleStack
from infra.stacks.gateway import GatewayOptions, GatewayStack
from infra.stacks.maintenance import MaintenanceStack
from infra.stacks.observability import ObservabilityStack
from infra.stacks.pipeline import PipelineStack
from infra.stacks.storage import StorageStack
from infra.stacks.triggers import TriggersStack
from infra.stages import Stage, stage_of

DEFAULT_STAGE = "dev"


def add_stacks(app: Construct, stage: Stage, artifacts: Artifacts) -> ApiStack:
    """Add the stage's stacks to an app or a part of one; return that with the functions that clients call.

    Storage comes first: the others name its bucket and tables. What the app has already gets no tags.
    """
    others = {child.node.path for child in app.node.children}
    prefix = f"odradek-{stage.name}"
    stage = with_memory(with_capacities(stage, app.node), app.node)
    gateway, console = GatewayOptions.of(app.node), ConsoleOptions.of(app.node)  # wrong ones before any work
    store = StorageStack(app, f"{prefix}-storage", stage=stage).store
    api = ApiStack(app, f"{prefix}-api", stage=stage, store=store, artifacts=artifacts)
    for name, stack in (("maintenance", MaintenanceStack), ("pipeline", PipelineStack)):
        stack(app, f"{prefix}-{name}", stage=stage, store=store, artifacts=artifacts)
    triggers = TriggersStack(app, f"{prefix}-triggers", stage=stage, store=store, artifacts=artifacts)
    if stage.connect is not None:
        connect = ConnectStack(
            app, f"{prefix}-connect", stage=stage, options=stage.connect, api=api, artifacts=artifacts
        )
        connect.add_stack_dependency(triggers)  # which has the role that may call it
    watch = ObservabilityStack(app, f"{prefix}-observability", stage=stage, store=store, artifacts=artifacts)
    if gateway is not None:
        GatewayStack(
            app, f"{prefix}-gateway", stage=stage, store=store, artifacts=artifacts, options=gateway, alarms=watch.topic
        )
    if console is not None:
        ConsoleStack(app, f"{prefix}-console", stage=stage, store=store, artifacts=artifacts, options=console)
    added = [child for child in app.node.children if child.node.path not in others]
    for key, value in {"odradek:stage": stage.name, **stage.tags, **tags_of(app.node)}.items():
        for stack in added:
            Tags.of(stack).add(key, value)
    return api


def wants_tables(node: Node) -> bool:
    """Return whether the context asks for columnar history: `-c tables=true`. Raises SystemExit."""
    text = str(node.try_get_context("tables") or "false").lower()
    if text not in ("true", "false"):
        raise SystemExit(f"infra: -c tables must be true or false, not {text!r}")
    return text == "true"


def tags_of(node: Node) -> dict[str, str]:
    """The owner's tags in the context: `-c tags=team=flights,cost-centre=42`. Raises SystemExit."""
    text = str(node.try_get_context("tags") or "")
    pairs = [pair.strip().partition("=") for pair in text.split(",") if pair.strip()]
    for key, equals, value in pairs:
        if not (key and equals and value) or key.lower().startswith("aws:"):
            raise SystemExit(f"infra: -c tags is key=value,..., and no key begins with aws:, not {text!r}")
    return {key: value for key, _, value in pairs}


def new_app(outdir: str | None = None) -> App:
    """Return an app with the feature flags of cdk.json, which otherwise only the CDK command line would pass."""
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    return App(outdir=outdir, context=context, analytics_reporting=False)


def main() -> None:
    """Write the templates; print their location, and what a deployment still needs."""
    app = new_app(os.environ.get("CDK_OUTDIR") or str(ROOT / "cdk.out"))
    stage = stage_of(app.node.try_get_context("stage") or DEFAULT_STAGE)
    artifacts = Artifacts.find(tables=wants_tables(app.node))
    add_stacks(app, stage, artifacts)
    assembly = app.synth()
    for stack in assembly.stacks:
        print(f"{stack.stack_name}: {len(stack.template['Resources'])} resources, {stack.template_full_path}")
    if artifacts.missing:
        print(
            f"Not built yet, so it cannot be deployed: {', '.join(artifacts.missing)}. Run `{artifacts.command}`.",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
