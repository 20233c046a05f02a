"""The discovery document: where the functions are. GET /.well-known/odradek on the coordinator.

    {"cluster_id": "...", "region": "eu-west-1", "functions": {"produce": "https://...", "fetch": ..., ...},
     "registry": "https://..."}                                       (where there is a schema registry)

A client needs one address, the coordinator's; the others it learns here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.protocol.api import FunctionName


@dataclass(frozen=True, slots=True)
class Discovery:
    """What the coordinator knows about its siblings.

    An address that is a mere path lies on the host that the client called: the coordinator's own (a function on AWS
    cannot know its URL beforehand), and all of them in the embedded service (which may be reached by several names).
    """

    cluster_id: str
    region: str
    functions: Mapping[FunctionName, str] = field(default_factory=dict)  # URLs or paths
    scheme: str = "https"  # of the host that the client called
    registry: str | None = None  # the schema registry's URL or path

    def document(self, domain_name: str) -> dict[str, object]:
        """The document for a client that called this host."""
        addresses = {FunctionName.COORDINATOR: "/", **self.functions}
        functions = {name.value: self._url(address, domain_name) for name, address in addresses.items()}
        document: dict[str, object] = {"cluster_id": self.cluster_id, "region": self.region, "functions": functions}
        return document if self.registry is None else {**document, "registry": self._url(self.registry, domain_name)}

    def _url(self, address: str, domain_name: str) -> str:
        return address if "://" in address else f"{self.scheme}://{domain_name}{address}"
