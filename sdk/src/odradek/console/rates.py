"""Rates of requests: a bucket of tokens for each caller."""

from __future__ import annotations

from odradek.ports.clock import Clock

_CALLERS_MAX = 10_000


class RateLimit:
    """Allow each caller `per_s` requests a second on average, and `burst` at once."""

    def __init__(self, per_s: float, burst: float, clock: Clock) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._left: dict[str, tuple[float, float]] = {}  # tokens, and when

    def allows(self, caller: str) -> bool:
        """Take a token; return False if there is none."""
        now_s = self._clock.monotonic()
        if len(self._left) > _CALLERS_MAX:
            self._left.clear()
        tokens, then_s = self._left.get(caller, (self._burst, now_s))
        tokens = min(self._burst, tokens + (now_s - then_s) * self._per_s)
        self._left[caller] = (max(tokens - 1, 0.0) if tokens >= 1 else tokens, now_s)
        return tokens >= 1
