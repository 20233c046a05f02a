"""The discovery document: where the functions are. GET /.well-known/odradek on the coordinator.

    {"cluster_id": "...", "region": "eu-west-1", "functions": {"produce": "https://...", "fetch": ..., ...}}

A client needs one address, the coordinator's; the others it learns here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.protocol.api import FunctionName


@dataclass(frozen=True, slots=True)
class Discovery:
    """What the coordinator knows about its siblings."""

    cluster_id: str
    region: str
    functions: Mapping[FunctionName, str] = field(default_factory=dict)

    def document(self, domain_name: str) -> dict[str, object]:
        """The document to answer; the coordinator's own URL is the host that was called, unless it is known."""
        functions = {name.value: url for name, url in self.functions.items()}
        if FunctionName.COORDINATOR not in self.functions and domain_name:
            functions[FunctionName.COORDINATOR.value] = f"https://{domain_name}/"
        return {"cluster_id": self.cluster_id, "region": self.region, "functions": functions}
