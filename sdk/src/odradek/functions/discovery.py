"""The discovery document: the addresses of the functions. GET /.well-known/odradek on the coordinator.

    {"cluster_id": "...", "region": "eu-west-1", "functions": {"produce": "https://...", "fetch": ..., ...},
     "registry": "https://...", "triggers": "https://...", "tables": "https://..."}   (where there is one)

A client needs the coordinator's address; this document has the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.protocol.api import FunctionName


@dataclass(frozen=True, slots=True)
class Discovery:
    """The addresses that the coordinator knows.

    An address that is only a path belongs to the host that the client called. That is the coordinator's address on AWS,
    where a function cannot know its URL beforehand, and every address of the embedded service, which may have several
    host names.
    """

    cluster_id: str
    region: str
    functions: Mapping[FunctionName, str] = field(default_factory=dict)  # URLs or paths
    scheme: str = "https"  # of the host that the client called
    registry: str | None = None  # the schema registry's URL or path
    triggers: str | None = None  # of the triggers function
    tables: str | None = None  # of the tables function

    def document(self, domain_name: str) -> dict[str, object]:
        """Return the document for a client that called this host."""
        addresses = {FunctionName.COORDINATOR: "/", **self.functions}
        functions = {name.value: self._url(address, domain_name) for name, address in addresses.items()}
        document: dict[str, object] = {"cluster_id": self.cluster_id, "region": self.region, "functions": functions}
        others = {"registry": self.registry, "triggers": self.triggers, "tables": self.tables}
        return document | {name: self._url(url, domain_name) for name, url in others.items() if url is not None}

    def _url(self, address: str, domain_name: str) -> str:
        return address if "://" in address else f"{self.scheme}://{domain_name}{address}"
