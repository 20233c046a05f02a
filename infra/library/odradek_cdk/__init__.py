"""The log as a construct of CDK, for the app of a team. docs/DEPLOY.md, "In your own CDK app".

    from odradek_cdk import Odradek

    log = Odradek(app, "Log", stage="prod")
    log.grant_client(my_function)
    my_function.add_environment("ODRADEK_BOOTSTRAP_SERVERS", log.bootstrap_servers)

It adds the same stacks as `make deploy`, from a checkout of the repository whose `make package` has built the files to
upload: infra/ and they are of one version, so neither is published alone. CDK's context configures them as there.
"""

from __future__ import annotations

from pathlib import Path

from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.app import add_stacks
from infra.artifacts import ROOT, Artifacts
from infra.stages import STAGES, Stage

__all__ = ["Odradek", "Stage"]


class Odradek(Construct):
    """A deployment of Odradek within an app. Its stacks are in the same scope, named `odradek-<stage>-...`.

    Args:
        scope: the app, or a Stage of CDK.
        stage: "dev", "prod", or a Stage of one's own. Stacks, functions and alarms have its name, so an account and
            region has one deployment of each.
        tables: maintainers write columnar history and keep Iceberg tables.
        artifacts: the folder whose dist/ has what `make package` built; the checkout's by default.

    Attributes:
        bootstrap_servers: the address for clients.
        client_policy: the managed policy of clients.

    Raises:
        ValueError: for an unknown name of a stage.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: str | Stage = "dev",
        tables: bool = False,
        artifacts: Path = ROOT,
    ) -> None:
        super().__init__(scope, construct_id)
        if isinstance(stage, str) and stage not in STAGES:
            raise ValueError(f"unknown stage {stage!r}: use {', '.join(STAGES)}, or a Stage")
        chosen = STAGES[stage] if isinstance(stage, str) else stage
        api = add_stacks(scope, chosen, Artifacts.find(Path(artifacts), tables=tables))
        self.bootstrap_servers: str = api.coordinator_url
        self.client_policy: iam.ManagedPolicy = api.client_policy

    def grant_client(self, grantee: iam.IGrantable) -> None:
        """Allow the role of a function, task or instance to call the log. ACLs say which topics it may use.

        Raises ValueError for a grantee without a role of this app.
        """
        role = grantee.grant_principal
        if not hasattr(role, "add_managed_policy"):
            raise ValueError(f"{grantee} has no role of this app: attach client_policy to its role")
        role.add_managed_policy(self.client_policy)
