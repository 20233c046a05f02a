"""The API stack: the functions that clients call, each with a URL: four for Kafka's APIs, one for schemas.

The coordinator answers discovery, so it gets the addresses of the others; it learns its own URL from each request.
"""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack
from constructs import Construct
from odradek.functions.environment import FUNCTION_URLS, REGISTRY, REGISTRY_URL, format_function_urls
from odradek.protocol.api import FunctionName

from infra.artifacts import Artifacts
from infra.constructs.function import OdradekFunction, OdradekLayer
from infra.constructs.function_url import ClientPolicy, SignedUrl
from infra.constructs.store_role import Store
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
            self, "Registry", name=REGISTRY, stage=stage, store=store, artifacts=artifacts, layer=layer
        )
        registry_url = SignedUrl(self, "RegistryAddress", function=registry.function).url
        CfnOutput(self, "RegistryUrl", value=registry_url)
        functions: dict[FunctionName, OdradekFunction] = {}
        urls: dict[FunctionName, str] = {}
        # The coordinator last: it gets the others' URLs.
        for name in sorted(FunctionName, key=lambda name: name is FunctionName.COORDINATOR):
            title = name.value.capitalize()
            functions[name] = OdradekFunction(
                self,
                title,
                name=name.value,
                stage=stage,
                store=store,
                artifacts=artifacts,
                layer=layer,
                extra_environment={FUNCTION_URLS: format_function_urls(urls), REGISTRY_URL: registry_url}
                if name is FunctionName.COORDINATOR
                else None,
            )
            urls[name] = SignedUrl(self, f"{title}Address", function=functions[name].function).url
            CfnOutput(self, f"{title}Url", value=urls[name])
        clients = ClientPolicy(self, "Clients", functions=[made.function for made in (*functions.values(), registry)])
        CfnOutput(self, "ClientPolicyArn", value=clients.policy.managed_policy_arn)
