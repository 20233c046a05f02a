"""Targets that the triggers of a service may call: the operator's list of names, and the addresses of URLs. Pure.

Whoever may create triggers chooses what the service calls, with the service's own rights and from its own network. So

    trigger_targets     lists the functions, URLs and destinations that triggers may name; empty: all. The role of the
                        dispatcher limits functions and AWS's destinations anyway: it may use what was granted to it
    addresses           a URL reaches the internet; networks of `trigger_networks`; on the embedded service, which
                        runs where its operator works, loopback and private networks, too

Addresses that are refused unless a network names them: link-local ones, at which clouds serve credentials, the other
metadata services, and what is not a host's address. An IPv4 address within an IPv6 one is judged as itself.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from odradek.errors import ErrorCode, KafkaError
from odradek.model.trigger import FunctionKind, Trigger

# Metadata services that are not link-local: of AWS over IPv6, Azure, Alibaba, Oracle.
_METADATA = frozenset(map(ip_address, ("fd00:ec2::254", "168.63.129.16", "100.100.100.200", "192.0.0.192")))
_NAT64 = ip_network("64:ff9b::/96")


class Reach:
    """The targets that may be called.

    Args:
        targets: patterns of names, separated by ";"; empty: all names.
        networks: that URLs may reach beside the internet, separated by ";".
        is_embedded: of the embedded service: URLs without TLS, loopback and private networks, handlers.
    """

    def __init__(self, targets: str = "", networks: str = "", *, is_embedded: bool = False) -> None:
        self._targets = _parts(targets)
        self._networks = [ip_network(network) for network in _parts(networks)]
        self._is_embedded = is_embedded

    def check(self, trigger: Trigger) -> None:
        """Raises KafkaError(POLICY_VIOLATION, INVALID_REQUEST): the trigger names what may not be called."""
        if refusal := self.refusal_of(trigger.function) or self.refusal_of(trigger.on_failure):
            raise KafkaError(ErrorCode.POLICY_VIOLATION, refusal)
        if trigger.kind is FunctionKind.HANDLER and not self._is_embedded:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{trigger.function!r} is called by the embedded service only: use the ARN of a Lambda function, or "
                "a URL",
            )
        if trigger.kind is FunctionKind.WEBHOOK:
            try:
                address = ip_address(urlsplit(trigger.function).hostname or "")
            except ValueError:
                return  # a name: its addresses are looked at whenever it is called
            if not self.allows_address(str(address)):
                raise KafkaError(ErrorCode.POLICY_VIOLATION, refused_address(str(address)))

    def refusal_of(self, target: str) -> str | None:
        """Return why a function, URL or destination may not be used; None: it may."""
        if target.startswith("http://") and not self._is_embedded:
            return f"{target} is not called without TLS: use https"
        if not target or target.startswith("topic:"):  # topics have ACLs
            return None
        if self._targets and not any(fnmatchcase(target, pattern) for pattern in self._targets):
            return f"{target} is none of the setting trigger_targets: have the operator add it"
        return None

    def allows_address(self, text: str) -> bool:
        """Return True if a URL may reach an address."""
        address = _unwrapped(ip_address(text.partition("%")[0]))
        if any(address in network for network in self._networks if network.version == address.version):
            return True
        if address.is_link_local or address in _METADATA or address.is_multicast or address.is_unspecified:
            return False
        return address.is_global or (self._is_embedded and (address.is_loopback or address.is_private))


def refused_address(address: str) -> str:
    """Return what is said of an address that may not be reached."""
    return f"{address} is not an address of the internet: the operator may allow its network by trigger_networks"


def _unwrapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]
