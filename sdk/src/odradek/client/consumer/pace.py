"""How long a consumer rests before its next fetch, where waiting in a function is billed: pure.

    looks    a rest is a share of the time between two answers with records, or of the time without any, so that the
             first record comes little later than it could, measured by how rare records are
    bytes    with `fetch_min_bytes`, a consumer rests until so many are expected at the observed rate, at most for
             fetch_max_wait_ms, where a broker would wait for them
    polls    a rest shorter than REST_S_MIN is not worth a call of its own: the function waits (a long poll)

A function that waits costs as much as ten calls a second that do not (docs/decisions/0007).
"""

from __future__ import annotations

REST_S_MIN = 0.1
_SHARE = 0.25
_GAIN = 0.5  # of the newest observation


class FetchPace:
    """Decides about one consumer's rests.

    Args:
        rest_s_max: the longest rest, in seconds; 0: a consumer never rests.
        min_bytes: what an answer should contain.
        min_bytes_wait_s: how long it may wait for that.
    """

    def __init__(self, rest_s_max: float, min_bytes: int = 1, min_bytes_wait_s: float = 0.0) -> None:
        self._rest_s_max = rest_s_max
        self._min_bytes = min_bytes
        self._min_bytes_wait_s = min_bytes_wait_s
        self._found_s = 0.0
        self._gap_s: float | None = None
        self._bytes_per_s: float | None = None

    def restart(self, now_s: float) -> None:
        """Forget what was observed: partitions or positions have changed."""
        self._found_s, self._gap_s, self._bytes_per_s = now_s, None, None

    def found(self, size_bytes: int, now_s: float) -> None:
        """Note an answer with records."""
        gap_s = max(now_s - self._found_s, 1e-3)
        rate = size_bytes / gap_s
        self._gap_s = gap_s if self._gap_s is None else self._gap_s + _GAIN * (gap_s - self._gap_s)
        self._bytes_per_s = (
            rate if self._bytes_per_s is None else self._bytes_per_s + _GAIN * (rate - self._bytes_per_s)
        )
        self._found_s = now_s

    def rest_s(self, now_s: float) -> float:
        """Return the seconds to rest before a fetch that does not wait; 0: fetch at once, and let the function wait."""
        if self._rest_s_max <= 0:
            return 0.0
        quiet_s = max(0.0, now_s - self._found_s)
        rest_s = min(_SHARE * max(quiet_s, self._gap_s or 0.0), self._rest_s_max)
        if self._bytes_per_s and self._min_bytes > 1:
            gathering_s = self._min_bytes / self._bytes_per_s - quiet_s
            rest_s = max(rest_s, min(gathering_s, self._min_bytes_wait_s))
        return rest_s if rest_s >= min(REST_S_MIN, self._rest_s_max) else 0.0
