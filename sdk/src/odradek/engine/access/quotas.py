"""Quotas: how long a client is asked to pause (Kafka's throttle_time_ms, KIP-13, KIP-124, KIP-219, KIP-599, KIP-612).

A request is executed, charged, and its response says how long the client should wait until its use has been earned
again. Stock clients and the SDK obey. Only these are refused: a change of partitions by a client that still owes for
earlier ones (THROTTLING_QUOTA_EXCEEDED, in the versions whose clients know it), and a connection beyond its address's
rate.

    rate     the one that an administrator gave this user and client id (client_quotas.py), else the setting's
    key      what the rate was given to; for a setting's rate, principal and client id: each pair has separate buckets
    bucket   `rate` tokens a second, one second's worth at most, of mutations and connections eleven (Kafka's window); a
             request may take it below zero, and the pause is the time until it is back at zero
    time     request_percentage is charged with the seconds in which a request kept the event loop busy: its decoding
             and the steps of its handler, not what it waited for, what worker threads did, or what the gateway's group
             commit did for several requests together. The pause is announced by this response, of Produce and Fetch by
             the next one

The buckets belong to this process, so a quota holds for each function instance and each gateway separately: a client
whose requests are spread over n warm instances gets n times its quota. It keeps one client from monopolizing a process;
it does not limit the bill.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from odradek.engine.access.busy_time import BusyTime
from odradek.engine.access.client_quotas import ClientQuotas, address_quota_of, quota_of
from odradek.errors import ErrorCode, KafkaError
from odradek.model.quota import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from odradek.ports.clock import Clock
from odradek.settings import Settings

THROTTLE_MS_MAX = 30_000  # of records: more is asked for by the answer after the pause
MUTATION_THROTTLE_MS_MAX = 2**31 - 1  # of changes, which are refused meanwhile: the whole pause is told
_BUCKETS_MAX = 30_000
_WINDOW_S = 11  # of mutations and connections: Kafka's quota.window.num windows of a second


@dataclass(frozen=True, slots=True)
class Bucket:
    """Tokens at a moment."""

    tokens: float
    at_s: float  # monotonic


def charged(bucket: Bucket | None, amount: float, rate: float, now_s: float, window_s: float = 1) -> Bucket:
    """The bucket after taking `amount`; None is a full one, which holds `window_s` seconds of the rate."""
    full = rate * window_s
    tokens = full if bucket is None else min(full, bucket.tokens + (now_s - bucket.at_s) * rate)
    return Bucket(tokens - amount, now_s)


def throttle_ms(bucket: Bucket, rate: float, ms_max: int = THROTTLE_MS_MAX) -> int:
    """The pause after which nothing is owed any more, at most `ms_max`."""
    return 0 if bucket.tokens >= 0 else min(ms_max, -int(bucket.tokens * 1000 // rate))


class Mutations:
    """The charges of one request that creates or deletes partitions (controller_mutation_rate, KIP-599)."""

    def __init__(self, charge: Callable[[int], int], *, is_limited: bool) -> None:
        self._charge = charge
        self.is_limited = is_limited
        self.throttle_ms = 0

    def check(self, *, is_strict: bool) -> None:
        """Raise KafkaError(THROTTLING_QUOTA_EXCEEDED) for a strict version while earlier changes are still owed for."""
        self.throttle_ms = self._charge(0)
        if self.throttle_ms and is_strict:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"the quota {CONTROLLER_MUTATION_RATE} is used up: try again in {self.throttle_ms} ms",
            )

    def record(self, partitions: int) -> None:
        """Charge partitions that were created or deleted."""
        self.throttle_ms = self._charge(partitions)


class Quotas:
    """The quotas that this process keeps."""

    def __init__(self, clock: Clock, settings: Settings, client_quotas: ClientQuotas | None = None) -> None:
        self._clock = clock
        self._settings = settings
        self._client_quotas = client_quotas
        self._buckets: OrderedDict[tuple[str, object], Bucket] = OrderedDict()

    async def limit_nobody(self) -> bool:
        """Return True if no quota of records, requests or time is set for anybody."""
        settings = self._settings
        if settings.quota_requests_per_s or settings.quota_produce_bytes_per_s or settings.quota_fetch_bytes_per_s:
            return False
        return self._client_quotas is None or not await self._client_quotas.current()

    async def produced(self, principal: str, client_id: str | None, size_bytes: int) -> int:
        """Charge a produce request; return the throttle time in ms."""
        otherwise = self._settings.quota_produce_bytes_per_s
        key, rate = await self._rate(PRODUCER_BYTE_RATE, principal, client_id, otherwise)
        pause_ms = max(self._request(principal, client_id), self._charge("produce", key, size_bytes, rate))
        return max(pause_ms, await self.busy(principal, client_id, 0.0))

    async def fetched(self, principal: str, client_id: str | None, size_bytes: int) -> int:
        """Charge a fetch by the size of its records; return the throttle time in ms."""
        otherwise = self._settings.quota_fetch_bytes_per_s
        key, rate = await self._rate(CONSUMER_BYTE_RATE, principal, client_id, otherwise)
        pause_ms = max(self._request(principal, client_id), self._charge("fetch", key, size_bytes, rate))
        return max(pause_ms, await self.busy(principal, client_id, 0.0))

    async def busy_time(self, principal: str, client_id: str | None) -> BusyTime | None:
        """Return a measurement of a request's time, None if no quota asks for it; give the result to `busy`."""
        _, rate = await self._rate(REQUEST_PERCENTAGE, principal, client_id, 0)
        return BusyTime(self._clock) if rate else None

    async def busy(self, principal: str, client_id: str | None, seconds: float) -> int:
        """Charge the seconds in which a request kept the event loop busy; return the throttle time in ms."""
        key, percentage = await self._rate(REQUEST_PERCENTAGE, principal, client_id, 0)
        return self._charge("time", key, seconds, percentage / 100)

    async def mutations(self, principal: str, client_id: str | None) -> Mutations:
        """Return the quota of a request that creates or deletes partitions."""
        key, rate = await self._rate(CONTROLLER_MUTATION_RATE, principal, client_id, 0)
        return Mutations(
            lambda count: self._charge("mutation", key, count, rate, _WINDOW_S, MUTATION_THROTTLE_MS_MAX),
            is_limited=rate > 0,
        )

    def connected(self, address: str) -> bool:
        """Charge a connection; return False, without a charge, if its address has opened too many.

        It goes by the last copy of the quotas: `ClientQuotas.current` renews it.
        """
        quotas = {} if self._client_quotas is None else self._client_quotas.last
        rate = address_quota_of(quotas, CONNECTION_CREATION_RATE, address)
        if rate is None:
            return True
        key = ("connection", address)
        bucket = charged(self._buckets.get(key), 0, rate, self._clock.monotonic(), _WINDOW_S)
        if bucket.tokens < 1:
            return False
        self._charge(*key, 1, rate, _WINDOW_S)
        return True

    async def _rate(self, name: str, principal: str, client_id: str | None, otherwise: float) -> tuple[object, float]:
        """Return the key of the bucket that is charged, and its rate."""
        if self._client_quotas is not None and (quotas := await self._client_quotas.current()):
            found = quota_of(quotas, name, principal, client_id)
            if found is not None:
                return found
        return (principal, client_id), otherwise

    def _request(self, principal: str, client_id: str | None) -> int:
        return self._charge("request", (principal, client_id), 1, self._settings.quota_requests_per_s)

    def _charge(
        self,
        kind: str,
        owner: object,
        amount: float,
        rate: float,
        window_s: float = 1,
        throttle_ms_max: int = THROTTLE_MS_MAX,
    ) -> int:
        if rate <= 0:
            return 0
        key = (kind, owner)
        bucket = charged(self._buckets.pop(key, None), amount, rate, self._clock.monotonic(), window_s)
        self._buckets[key] = bucket
        if len(self._buckets) > _BUCKETS_MAX:
            self._buckets.popitem(last=False)
        return throttle_ms(bucket, rate, throttle_ms_max)
