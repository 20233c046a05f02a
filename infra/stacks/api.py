"""The API stack: the functions that clients call, each with an alias and its URL: four of Kafka's APIs, one each of
schemas, triggers and served tables.

The coordinator answers discovery, so it gets the addresses of the others; it learns its own URL from each request.
"""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_lambda as lambda_
from constructs import Construct
from odradek.functions.environment import (
    FUNCTION_URLS,
    REGISTRY,
    REGISTRY_URL,
    TABLES,
    TABLES_URL,
    TRIGGERS,
    TRIGGERS_URL,
    WAKE_QUEUE_URL,
    format_function_urls,
)
from odradek.protocol.api import FunctionName

from infra.artifacts import Artifacts
from infra.constructs.function import OdradekFunction, OdradekLayer
from infra.constructs.function_url import ClientPolicy, SignedUrl
from infra.constructs.release import CanaryDeployments, Release
from infra.constructs.store_role import Store
from infra.constructs.wake_queue import allow_wakes, queue_url
from infra.permissions import PERMISSIONS
from infra.stages import Stage


class ApiStack(Stack):
    """Functions and their URLs; a client needs only the coordinator's."""

    def __init__(
        self, scope: Construct, construct_id: str, *, stage: Stage, store: Store, artifacts: Artifacts
    ) -> None:
        super().__init__(scope, construct_id, description="Odradek: the functions that clients call")
        artifacts.require(self)
        layer = OdradekLayer(self, "Layer", artifacts=artifacts)
        registry = OdradekFunction(
            self,
            "Registry",
            name=REGISTRY,
            stage=stage,
            store=store,
            artifacts=artifacts,
            layer=layer,
            snap_start=stage.snap_start,
        )
        canaries = CanaryDeployments(self, "Canaries") if stage.canary_minutes else None

        def released(title: str, name: str, made: OdradekFunction) -> lambda_.Alias:
            return Release(
                self,
                f"{title}Release",
                name=name,
                stage=stage,
                function=made.function,
                canaries=canaries,
                faults=name not in (TRIGGERS, TABLES),
            ).alias

        aliases = [released("Registry", REGISTRY, registry)]
        registry_url = SignedUrl(self, "RegistryAddress", alias=aliases[0], stage=stage).url
        wakes = {WAKE_QUEUE_URL: queue_url(self, stage)}

        def waking(title: str, name: str) -> str:
            """A function that is managed over its URL, and wakes the dispatcher of triggers."""
            made = OdradekFunction(
                self,
                title,
                name=name,
                stage=stage,
                store=store,
                artifacts=artifacts,
                layer=layer,
                extra_environment=wakes,
                snap_start=stage.snap_start,
            )
            allow_wakes(self, stage, name, made.role)
            aliases.append(released(title, name, made))
            url: str = SignedUrl(self, f"{title}Address", alias=aliases[-1], stage=stage).url
            CfnOutput(self, f"{title}Url", value=url)
            return url

        triggers_url, tables_url = waking("Triggers", TRIGGERS), waking("Tables", TABLES)
        CfnOutput(self, "RegistryUrl", value=registry_url)
        urls: dict[FunctionName, str] = {}
        # The coordinator last: it gets the others' URLs.
        for name in sorted(FunctionName, key=lambda name: name is FunctionName.COORDINATOR):
            title = name.value.capitalize()
            made = OdradekFunction(
                self,
                title,
                name=name.value,
                stage=stage,
                store=store,
                artifacts=artifacts,
                layer=layer,
                snap_start=stage.snap_start,
                extra_environment={
                    **(wakes if PERMISSIONS[name.value].wakes else {}),
                    **(
                        {
                            FUNCTION_URLS: format_function_urls(urls),
                            REGISTRY_URL: registry_url,
                            TRIGGERS_URL: triggers_url,
                            TABLES_URL: tables_url,
                        }
                        if name is FunctionName.COORDINATOR
                        else {}
                    ),
                },
            )
            allow_wakes(self, stage, name.value, made.role)
            aliases.append(released(title, name.value, made))
            urls[name] = SignedUrl(self, f"{title}Address", alias=aliases[-1], stage=stage).url
            CfnOutput(self, f"{title}Url", value=urls[name])
        self.coordinator_url = urls[FunctionName.COORDINATOR]
        self.client_policy = ClientPolicy(self, "Clients", functions=aliases).policy
        CfnOutput(self, "ClientPolicyArn", value=self.client_policy.managed_policy_arn)
