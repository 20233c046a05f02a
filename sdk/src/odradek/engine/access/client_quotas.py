"""Quotas that administrators give to users, client ids and addresses, an item each in the catalog (model/quota.py).

    Key                       Value                                                              Lifetime
    quotas   <digest, hex>    v: format version 1; u, c, i: user, client id, IP address, "" the  first .. last
                              default one, missing: any; q: {name: value}, request_percentage    of its values
                              and controller_mutation_rate in thousandths; w: of this write,
                              random

An item is written on condition that `w` is as it was read, so of two administrators neither undoes the other. The
digest is SHA-256 over user and client id, or the address. Of the quotas that fit a request the most specific one
counts, in Kafka's order: user and client, user and default client, user, default user and client, default user and
default client, default user, client, default client. A quota of a user is shared by the user's clients, one of a client
id by its users.

A process trusts its copy for `acl_cache_ms`, and keeps to it where the catalog does not answer: a quota is no right.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Mapping
from functools import partial

from odradek.backoff import Backoff
from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    FormatError,
    KafkaError,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
)
from odradek.format.item_keys import QUOTAS_PK
from odradek.model.quota import ADDRESS_QUOTAS, CLIENT_QUOTAS, DEFAULT, WHOLE_QUOTAS, ClientQuotaSet, QuotaEntity
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import Absent, Compare, Delete, Item, Key, Put, Table, Value
from odradek.settings import Settings

VERSION = 1
_RATE_MAX = 2**53
_FRACTION = 1_000  # the smallest step of a value that may have fractions, as its denominator
_NAME_BYTES_MAX = 2_048
_ATTEMPTS = 6
_NONCE_BYTES = 8
_unavailable = partial(
    KafkaError, ErrorCode.COORDINATOR_NOT_AVAILABLE, "the quotas cannot be read or written: try again"
)


class ClientQuotas:
    """The quotas of a cluster, with a short-lived copy."""

    def __init__(self, catalog: Table, clock: Clock, rng: Rng, settings: Settings) -> None:
        self._catalog = catalog
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._backoff = Backoff(clock, rng, first_s=0.02, max_s=1.0)
        self._copy: ClientQuotaSet = {}
        self._copy_until = float("-inf")  # monotonic

    @property
    def last(self) -> ClientQuotaSet:
        """The copy, however old it is."""
        return self._copy

    async def current(self) -> ClientQuotaSet:
        """The quotas, at most `acl_cache_ms` old unless the catalog does not answer."""
        now_s = self._clock.monotonic()
        if now_s >= self._copy_until:
            self._copy_until = now_s + self._settings.acl_cache_ms / 1000  # others go by the old copy meanwhile
            try:
                self._copy = await self.list()
            except KafkaError:
                return self._copy
        return self._copy

    async def list(self) -> ClientQuotaSet:
        """All quotas as they are now. Raises KafkaError(COORDINATOR_NOT_AVAILABLE)."""
        try:
            return await self._read()
        except (StoreError, FormatError) as error:
            raise _unavailable() from error

    async def _read(self) -> ClientQuotaSet:
        return dict(_decode(row.item) for row in await self._catalog.query(QUOTAS_PK))

    async def alter(
        self, entity: QuotaEntity, changes: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Set values of an entity, or remove them (None); what another sets at the same time stays.

        Raises KafkaError: INVALID_REQUEST, COORDINATOR_NOT_AVAILABLE (may have been applied).
        """
        _check(entity, changes)
        if validate_only:
            return
        try:
            for attempt in range(_ATTEMPTS):
                try:
                    item = await self._catalog.get(_key(entity))
                    values = {} if item is None else dict(_decode(item)[1])
                    for name, value in changes.items():
                        values.pop(name, None)
                        if value is not None:
                            values[name] = value
                    as_read = Absent(("v",)) if item is None else Compare(("w",), "=", attribute(item, "w", bytes))
                    if values:
                        nonce = self._rng.random_bytes(_NONCE_BYTES)
                        await self._catalog.put(Put(_key(entity), _encode(entity, values, nonce), as_read))
                    elif item is not None:
                        await self._catalog.delete(Delete(_key(entity), as_read))
                except (ConditionFailed, StoreUnavailable, OutcomeUnknown):
                    await self._backoff.pause(attempt)
                except FormatError as error:
                    raise _unavailable() from error
                else:
                    return
        finally:
            self._copy_until = float("-inf")
        raise _unavailable()


def quota_of(
    quotas: ClientQuotaSet, name: str, principal: str, client_id: str | None
) -> tuple[QuotaEntity, float] | None:
    """The quota that counts for a request, and who shares it: a default one is each user's or client's own. Pure."""
    if not quotas:
        return None
    user, client = principal.removeprefix("User:"), client_id or ""
    for users in (user, DEFAULT, None):
        for clients in (client, DEFAULT, None):
            entity = QuotaEntity(users, clients)
            rate = quotas.get(entity, {}).get(name)
            if rate is not None:
                return QuotaEntity(None if users is None else user, None if clients is None else client), rate
    return None


def address_quota_of(quotas: ClientQuotaSet, name: str, address: str) -> float | None:
    """The quota that counts for an IP address. Pure."""
    for entity in (QuotaEntity(ip=address), QuotaEntity(ip=DEFAULT)):
        rate = quotas.get(entity, {}).get(name)
        if rate is not None:
            return rate
    return None


def _check(entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
    if entity == QuotaEntity() or (entity.ip is not None and entity != QuotaEntity(ip=entity.ip)):
        raise _invalid("a quota is for a user, a client id, both, or an IP address")
    if entity.ip and canonical_address(entity.ip) != entity.ip:
        raise _invalid(f"{entity.ip!r} is not an IP address in its usual notation")
    if any(len((name or "").encode("utf-8", "surrogatepass")) > _NAME_BYTES_MAX for name in entity):
        raise _invalid(f"the name of a user or a client may have at most {_NAME_BYTES_MAX} bytes")
    for name, value in changes.items():
        known = CLIENT_QUOTAS if entity.ip is None else ADDRESS_QUOTAS
        if name not in known:
            kind = "a user or a client id" if entity.ip is None else "an IP address"
            raise _invalid(f"quota {name!r} does not exist for {kind}; known are: {', '.join(known)}")
        if value is None:
            continue
        if name in WHOLE_QUOTAS:
            if not 1 <= value <= _RATE_MAX or value != int(value):
                raise _invalid(f"{name} must be a whole number from 1 to {_RATE_MAX}, not {value}")
        elif not 1 / _FRACTION <= value <= _RATE_MAX / _FRACTION:
            raise _invalid(f"{name} must be {1 / _FRACTION} to {_RATE_MAX // _FRACTION}, not {value}")


def canonical_address(text: str) -> str | None:
    """Return an IP address in its usual notation, None for other text."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _key(entity: QuotaEntity) -> Key:
    named = [entity.user, entity.client_id] if entity.ip is None else {"ip": entity.ip}
    return Key(QUOTAS_PK, hashlib.sha256(json.dumps(named).encode()).hexdigest())


def _encode(entity: QuotaEntity, values: Mapping[str, float], nonce: bytes) -> Item:
    stored: dict[str, Value] = {name: round(value * _steps(name)) for name, value in values.items()}
    item: Item = {"v": VERSION, "q": stored, "w": nonce}
    if entity.user is not None:
        item["u"] = entity.user
    if entity.client_id is not None:
        item["c"] = entity.client_id
    if entity.ip is not None:
        item["i"] = entity.ip
    return item


def _steps(name: str) -> int:
    return 1 if name in WHOLE_QUOTAS else _FRACTION


def _decode(item: Item) -> tuple[QuotaEntity, Mapping[str, float]]:
    check_version(item, VERSION, "a quota")
    names = (attribute(item, each, str) if each in item else None for each in ("u", "c", "i"))
    values = attribute(item, "q", dict)
    return QuotaEntity(*names), {name: attribute(values, name, int) / _steps(name) for name in values}
