"""Quotas: how long a client is asked to pause (Kafka's throttle_time_ms, KIP-13, KIP-124, KIP-219).

A request is never refused for a quota: it is executed, charged, and its response says how long the client should wait
until its use has been earned again. Stock clients and the SDK obey.

    key      principal and client id: each pair has separate buckets
    bucket   `rate` tokens a second, one second's worth at most; a request may take it below zero, and the pause is
             the time until it is back at zero

The buckets belong to this process, so a quota holds for each function instance and each gateway separately: a client
whose requests are spread over n warm instances gets n times its quota. It keeps one client from monopolizing a process;
it does not limit the bill.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

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

    def __init__(self, clock: Clock, settings: Settings) -> None:
        self._clock = clock
        self._settings = settings
        self._buckets: OrderedDict[tuple[str, str, str | None], Bucket] = OrderedDict()

    def produced(self, principal: str, client_id: str | None, size_bytes: int) -> int:
        """Charge a produce request; return the throttle time in ms."""
        rate = self._settings.quota_produce_bytes_per_s
        return max(self._request(principal, client_id), self._charge("produce", principal, client_id, size_bytes, rate))

    def fetched(self, principal: str, client_id: str | None, size_bytes: int) -> int:
        """Charge a fetch by the size of its records; return the throttle time in ms."""
        rate = self._settings.quota_fetch_bytes_per_s
        return max(self._request(principal, client_id), self._charge("fetch", principal, client_id, size_bytes, rate))

    def _request(self, principal: str, client_id: str | None) -> int:
        return self._charge("request", principal, client_id, 1, self._settings.quota_requests_per_s)

    def _charge(self, kind: str, principal: str, client_id: str | None, amount: int, rate: int) -> int:
        if rate <= 0:
            return 0
        key = (kind, principal, client_id)
        bucket = charged(self._buckets.pop(key, None), amount, rate, self._clock.monotonic())
        self._buckets[key] = bucket
        if len(self._buckets) > _BUCKETS_MAX:
            self._buckets.popitem(last=False)
        return throttle_ms(bucket, rate)
