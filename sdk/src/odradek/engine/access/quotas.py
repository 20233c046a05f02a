"""Quotas: how long a client is asked to pause (Kafka's throttle_time_ms, KIP-13, KIP-124, KIP-219).

A request is never refused for a quota: it is executed, charged, and its response says how long the client should wait
until its use has been earned again. Stock clients and the SDK obey.

    rate     the one that an administrator gave this user and client id (client_quotas.py), else the setting's
    key      what the rate was given to; for a setting's rate, principal and client id: each pair has separate buckets
    bucket   `rate` tokens a second, one second's worth at most; a request may take it below zero, and the pause is
             the time until it is back at zero

The buckets belong to this process, so a quota holds for each function instance and each gateway separately: a client
whose requests are spread over n warm instances gets n times its quota. It keeps one client from monopolizing a process;
it does not limit the bill.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from odradek.engine.access.client_quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, ClientQuotas, quota_of
from odradek.ports.clock import Clock
from odradek.settings import Settings

THROTTLE_MS_MAX = 30_000  # more is asked for by the answer after the pause
_BUCKETS_MAX = 30_000


@dataclass(frozen=True, slots=True)
class Bucket:
    """Tokens at a moment."""

    tokens: float
    at_s: float  # monotonic


def charged(bucket: Bucket | None, amount: int, rate: int, now_s: float) -> Bucket:
    """The bucket after taking `amount`; None is a full one."""
    tokens = float(rate) if bucket is None else min(rate, bucket.tokens + (now_s - bucket.at_s) * rate)
    return Bucket(tokens - amount, now_s)


def throttle_ms(bucket: Bucket, rate: int) -> int:
    """The pause after which nothing is owed any more."""
    return 0 if bucket.tokens >= 0 else min(THROTTLE_MS_MAX, -int(bucket.tokens * 1000 // rate))


class Quotas:
    """The quotas that this process keeps."""

    def __init__(self, clock: Clock, settings: Settings, client_quotas: ClientQuotas | None = None) -> None:
        self._clock = clock
        self._settings = settings
        self._client_quotas = client_quotas
        self._buckets: OrderedDict[tuple[str, object], Bucket] = OrderedDict()

    async def produced(self, principal: str, client_id: str | None, size_bytes: int) -> int:
        """Charge a produce request; return the throttle time in ms."""
        rate = self._settings.quota_produce_bytes_per_s
        key, rate = await self._rate(PRODUCER_BYTE_RATE, principal, client_id, rate)
        return max(self._request(principal, client_id), self._charge("produce", key, size_bytes, rate))

    async def fetched(self, principal: str, client_id: str | None, size_bytes: int) -> int:
        """Charge a fetch by the size of its records; return the throttle time in ms."""
        rate = self._settings.quota_fetch_bytes_per_s
        key, rate = await self._rate(CONSUMER_BYTE_RATE, principal, client_id, rate)
        return max(self._request(principal, client_id), self._charge("fetch", key, size_bytes, rate))

    async def _rate(self, name: str, principal: str, client_id: str | None, otherwise: int) -> tuple[object, int]:
        """Return the key of the bucket that is charged, and its rate."""
        if self._client_quotas is not None:
            found = quota_of(await self._client_quotas.current(), name, principal, client_id)
            if found is not None:
                return found
        return (principal, client_id), otherwise

    def _request(self, principal: str, client_id: str | None) -> int:
        return self._charge("request", (principal, client_id), 1, self._settings.quota_requests_per_s)

    def _charge(self, kind: str, owner: object, amount: int, rate: int) -> int:
        if rate <= 0:
            return 0
        key = (kind, owner)
        bucket = charged(self._buckets.pop(key, None), amount, rate, self._clock.monotonic())
        self._buckets[key] = bucket
        if len(self._buckets) > _BUCKETS_MAX:
            self._buckets.popitem(last=False)
        return throttle_ms(bucket, rate)
