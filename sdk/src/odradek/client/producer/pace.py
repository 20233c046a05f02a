"""How long a batch that is not full waits for more records. Each request costs money, whatever its size: pure.

    by default           nothing waits while nothing is in flight; else a batch waits for the answer, as small segments
                         do under Nagle's algorithm (RFC 896): an idle producer adds no latency, and a busy one makes
                         one request at a time, with all that came meanwhile
    linger_ms            as in Kafka: a batch waits that long, whatever is in flight
    latency_budget_ms    a batch waits as long as its acknowledgement can still be expected within the budget

Latency is estimated as TCP estimates round trips (RFC 6298): a smoothed mean, and four times the smoothed deviation.
"""

from __future__ import annotations

from odradek.client.config import ProducerConfig

_GAIN, _DEVIATION_GAIN = 1 / 8, 1 / 4
_DEVIATIONS = 4
_UNKNOWN_S = 1.0  # the estimate before the first answer: a cold function


class Pace:
    """Decides when an open batch is sent, from the configuration and the latencies of requests."""

    def __init__(self, config: ProducerConfig) -> None:
        self._linger_s = None if config.linger_ms is None else config.linger_ms / 1000
        self._budget_s = None if config.latency_budget_ms is None else config.latency_budget_ms / 1000
        self._mean_s: float | None = None
        self._deviation_s = 0.0

    @property
    def waits_for_answers(self) -> bool:
        """Return True if a batch that is not full waits while a request is in flight."""
        return self._linger_s is None and self._budget_s is None

    def observe(self, latency_s: float) -> None:
        """Note how long a request took."""
        if self._mean_s is None:
            self._mean_s, self._deviation_s = latency_s, latency_s / 2
            return
        self._deviation_s += _DEVIATION_GAIN * (abs(latency_s - self._mean_s) - self._deviation_s)
        self._mean_s += _GAIN * (latency_s - self._mean_s)

    @property
    def latency_s(self) -> float:
        """The seconds within which almost every request is answered."""
        return _UNKNOWN_S if self._mean_s is None else self._mean_s + _DEVIATIONS * self._deviation_s

    def due_s(self, created_s: float, in_flight_since_s: float | None) -> float:
        """Return the time at which an open batch is sent.

        Args:
            created_s: when its first record came.
            in_flight_since_s: when the newest request without an answer was sent; None: there is none. One that takes
                longer than almost every other holds nothing back.
        """
        if self._linger_s is not None:
            return created_s + self._linger_s
        if self._budget_s is not None:
            return created_s + max(0.0, self._budget_s - self.latency_s)
        return created_s if in_flight_since_s is None else in_flight_since_s + self.latency_s
