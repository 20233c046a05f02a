"""How often partitions grow, as far as this process has seen: a long poll looks at rare arrivals less often. Pure.

Each look reads the head of every partition of the request, which is what a waiting consumer costs.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.model.topic_partition import PartitionId

_SHARE = 0.25  # of the time between two arrivals
_GAIN = 0.5  # of the newest observation
_PARTITIONS_MAX = 10_000


class Arrivals:
    """End offsets of partitions, when they were seen, and the mean time between two changes."""

    def __init__(self) -> None:
        self._seen: dict[PartitionId, tuple[int, float, float]] = {}  # end offset, since when, gap

    def saw(self, partition: PartitionId, end_offset: int, now_s: float) -> None:
        """Note the end offset of a partition."""
        seen = self._seen.get(partition)
        if seen is None:
            if len(self._seen) >= _PARTITIONS_MAX:
                self._seen.clear()
            self._seen[partition] = end_offset, now_s, 0.0
        elif seen[0] != end_offset:
            _, since_s, gap_s = seen
            newest_s = now_s - since_s
            self._seen[partition] = end_offset, now_s, gap_s + _GAIN * (newest_s - gap_s) if gap_s else newest_s

    def pause_s(self, partitions: Iterable[PartitionId], now_s: float) -> float:
        """Return the seconds until another look at these partitions is worth its reads; 0 if that is unknown.

        Args:
            partitions: none of them has records to read. The most frequent one decides.
        """
        gaps = []
        for partition in partitions:
            seen = self._seen.get(partition)
            gaps.append(0.0 if seen is None else max(seen[2], now_s - seen[1]))
        return _SHARE * min(gaps, default=0.0)
