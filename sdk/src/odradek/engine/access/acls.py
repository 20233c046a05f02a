"""Access control lists: an item each in the catalog, and a short-lived copy of them all in each process.

    Key                     Value                                                        Lifetime
    acls    <digest, hex>   v: format version 1; t: resource type, n: its name, p:       created .. deleted
                            pattern type, who, host, op: operation, may: permission

The digest is SHA-256 over all seven parts: a rule is there once, whatever its name contains, and creating or deleting
it again changes nothing, so an unknown outcome is simply repeated. A process trusts its copy for `acl_cache_ms`: a
change takes effect everywhere within that time. Where the rules cannot be read nothing is allowed: the request fails
and may be tried again.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from functools import partial
from typing import TypeVar

from odradek.backoff import Backoff
from odradek.engine.access.decisions import AclSet
from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import ErrorCode, FormatError, KafkaError, OutcomeUnknown, StoreUnavailable
from odradek.format.item_keys import ACLS_PK
from odradek.limits import ACLS_MAX, TOPIC_NAME_LENGTH_MAX
from odradek.model.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import Delete, Item, Key, Put, Table
from odradek.settings import Settings

E = TypeVar("E", bound=IntEnum)

VERSION = 1
_TEXT_BYTES_MAX = 2_048  # of a principal, a host or a name
_ATTEMPTS = 6
_READ_ATTEMPTS = 3
_unavailable = partial(KafkaError, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the ACLs cannot be read or written: try again")

# What each type of resource can be asked for (Kafka's AclEntry.supportedOperations).
OPERATIONS: dict[ResourceType, frozenset[AclOperation]] = {
    ResourceType.TOPIC: frozenset(
        {
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.CREATE,
            AclOperation.DESCRIBE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        }
    ),
    ResourceType.GROUP: frozenset(
        {
            AclOperation.READ,
            AclOperation.DESCRIBE,
            AclOperation.DELETE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        }
    ),
    ResourceType.CLUSTER: frozenset(
        {
            AclOperation.CREATE,
            AclOperation.CLUSTER_ACTION,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
            AclOperation.IDEMPOTENT_WRITE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
        }
    ),
    ResourceType.TRANSACTIONAL_ID: frozenset({AclOperation.DESCRIBE, AclOperation.WRITE}),
}


class Acls:
    """The rules of a cluster."""

    def __init__(self, catalog: Table, clock: Clock, rng: Rng, settings: Settings) -> None:
        self._catalog = catalog
        self._clock = clock
        self._backoff = Backoff(clock, rng, first_s=0.05, max_s=2.0)
        self._settings = settings
        self._super_users = tuple(filter(None, (name.strip() for name in settings.super_users.split(";"))))
        self._lock = asyncio.Lock()
        self._copy = AclSet()
        self._rules: Sequence[AclBinding] | None = None  # of the copy
        self._copy_until = float("-inf")  # monotonic

    async def current(self) -> AclSet:
        """The rules, at most `acl_cache_ms` old. Raises KafkaError(COORDINATOR_NOT_AVAILABLE)."""
        if self._clock.monotonic() < self._copy_until:
            return self._copy
        async with self._lock:  # one request reads for all that wait
            if self._clock.monotonic() >= self._copy_until:
                read_at = self._clock.monotonic()
                rules = await self._all()
                if rules != self._rules:  # as long as they are the same, so is the set
                    self._rules = rules
                    self._copy = AclSet(
                        rules,
                        super_users=self._super_users,
                        everyone=self._settings.allow_everyone_if_no_acl_found,
                    )
                self._copy_until = read_at + self._settings.acl_cache_ms / 1000
            return self._copy

    async def list(self, wanted: AclFilter | None = None) -> Sequence[AclBinding]:
        """The rules that are meant, as they stand now. Raises KafkaError(COORDINATOR_NOT_AVAILABLE)."""
        wanted = wanted or AclFilter()
        return sorted(acl for acl in await self._all() if wanted.matches(acl))

    async def create(self, acl: AclBinding) -> None:
        """Add a rule; one that is there stays. Raises KafkaError: INVALID_REQUEST, COORDINATOR_NOT_AVAILABLE."""
        check(acl)
        if len((await self.current()).acls) >= ACLS_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"there are already {ACLS_MAX} ACLs, the maximum: use prefixes")
        await self._repeat(lambda: self._catalog.put(Put(_key(acl), _encode(acl))))

    async def delete(self, wanted: AclFilter) -> Sequence[AclBinding]:
        """Remove the rules that are meant; those removed. Raises KafkaError(COORDINATOR_NOT_AVAILABLE)."""
        found = await self.list(wanted)
        for acl in found:
            key = _key(acl)
            await self._repeat(lambda key=key: self._catalog.delete(Delete(key)))  # type: ignore[misc]
        return found

    def _forget(self) -> None:
        self._copy_until = float("-inf")

    async def _all(self) -> Sequence[AclBinding]:
        for attempt in range(_READ_ATTEMPTS):
            try:
                return [_decode(row.item) for row in await self._catalog.query(ACLS_PK)]
            except FormatError as error:
                raise _unavailable() from error
            except StoreUnavailable:
                await self._backoff.pause(attempt)
        raise _unavailable()

    async def _repeat(self, write: Callable[[], Awaitable[object]]) -> None:
        try:
            for attempt in range(_ATTEMPTS):
                try:
                    await write()
                except (StoreUnavailable, OutcomeUnknown):
                    await self._backoff.pause(attempt)
                else:
                    return
        finally:
            self._forget()
        raise _unavailable()


def check(acl: AclBinding) -> None:
    """Raises KafkaError(INVALID_REQUEST) for a rule that cannot be, and says why.

    As on Apache Kafka a rule may be of an operation that its resource is never asked for; it decides nothing.
    """
    if acl.resource_type is ResourceType.ANY:
        raise _invalid("an ACL's resource must be a topic, a group, the cluster, a transactional id or a user")
    if acl.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid("a pattern must be literal or prefixed")
    if acl.permission not in (AclPermission.ALLOW, AclPermission.DENY):
        raise _invalid("an ACL must allow or deny")
    if acl.operation is AclOperation.ANY:
        raise _invalid("an ACL's operation must be one, or ALL")
    kind, colon, _ = acl.principal.partition(":")
    if not kind or not colon:
        raise _invalid(f"invalid principal {acl.principal!r}: use User:<name>")
    if "/" in acl.host:
        try:
            ipaddress.ip_network(acl.host, strict=False)
        except ValueError as error:
            raise _invalid(f"invalid range of addresses {acl.host!r}: {error}") from None
    if not acl.host or not acl.name:
        raise _invalid("host and resource name cannot be empty: * matches all")
    if any(len(text.encode("utf-8", "surrogatepass")) > _TEXT_BYTES_MAX for text in (acl.principal, acl.host)):
        raise _invalid(f"principal and host may have at most {_TEXT_BYTES_MAX} bytes")
    longest = TOPIC_NAME_LENGTH_MAX if acl.resource_type is ResourceType.TOPIC else _TEXT_BYTES_MAX
    if len(acl.name.encode("utf-8", "surrogatepass")) > longest:
        raise _invalid(f"the name of the resource may have at most {longest} bytes")
    if acl.resource_type is ResourceType.CLUSTER and (
        acl.name != CLUSTER_NAME or acl.pattern is not PatternType.LITERAL
    ):
        raise _invalid(f"the name of the cluster is {CLUSTER_NAME}, with a literal pattern")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _key(acl: AclBinding) -> Key:
    parts = [int(acl.resource_type), acl.name, int(acl.pattern), acl.principal, acl.host]
    text = json.dumps([*parts, int(acl.operation), int(acl.permission)], ensure_ascii=True)
    return Key(ACLS_PK, hashlib.sha256(text.encode()).hexdigest())


def _encode(acl: AclBinding) -> Item:
    return {
        "v": VERSION,
        "t": int(acl.resource_type),
        "n": acl.name,
        "p": int(acl.pattern),
        "who": acl.principal,
        "host": acl.host,
        "op": int(acl.operation),
        "may": int(acl.permission),
    }


def _decode(item: Item) -> AclBinding:
    check_version(item, VERSION, "access rule")
    return AclBinding(
        _number(ResourceType, item, "t"),
        attribute(item, "n", str),
        _number(PatternType, item, "p"),
        attribute(item, "who", str),
        attribute(item, "host", str),
        _number(AclOperation, item, "op"),
        _number(AclPermission, item, "may"),
    )


def _number(kind: type[E], item: Item, name: str) -> E:
    try:
        return kind(attribute(item, name, int))
    except ValueError:
        raise FormatError(f"unknown {name} in an ACL") from None
