"""How keys spread over the partitions of a topic, from a sample of the newest records of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from odradek.errors import ErrorCode, KafkaError
from odradek.operations.cluster import Cluster
from odradek.operations.records.reading import bounds, read_windows

SAMPLE_MAX = 5_000  # records of a partition
_TOP = 10
_PARTITIONS_MAX = 200


@dataclass(frozen=True, slots=True)
class KeyShare:
    """A key, and how much of the sample it is."""

    key: str  # as text; bytes that are not UTF-8 as hexadecimal digits
    records: int
    share: float  # 0 to 1, of the records that were read
    partitions: tuple[int, ...]  # it was found in


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """The keys of a partition's newest records."""

    partition: int
    records: int  # in the log
    sampled: int
    keys: int  # different ones
    without_key: int
    heaviest: str  # key, "" if there is none
    heaviest_share: float  # of the sample of this partition


@dataclass(frozen=True, slots=True)
class Skew:
    """How keys spread over partitions."""

    partitions: tuple[PartitionKeys, ...]
    top: tuple[KeyShare, ...]
    sampled: int
    keys: int
    imbalance: float  # records of the largest partition, divided by the mean; 1.0 is even

    @property
    def moved(self) -> tuple[KeyShare, ...]:
        """Keys among the heaviest that stand in several partitions: their order is lost."""
        return tuple(each for each in self.top if len(each.partitions) > 1)


async def key_skew(cluster: Cluster, topic: str, sample: int = 1_000) -> Skew:
    """Read the newest records of each partition and count their keys.

    Args:
        sample: records of each partition, at most SAMPLE_MAX.

    Raises:
        KafkaError: INVALID_CONFIG for a sample out of bounds, UNKNOWN_TOPIC_OR_PARTITION ...
    """
    if not 1 <= sample <= SAMPLE_MAX:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"the sample must be 1 to {SAMPLE_MAX:,} records, not {sample}")
    begins, ends = await bounds(cluster, topic)
    places = sorted(ends)[:_PARTITIONS_MAX]
    windows = {each: (max(begins[each], ends[each] - sample), ends[each]) for each in places}
    counts: dict[int, Counter[bytes | None]] = {each.partition: Counter() for each in places}
    for record in await read_windows(cluster, windows):
        counts[record.partition][record.key] += 1
    total: Counter[bytes] = Counter()
    found_in: dict[bytes, list[int]] = {}
    for number, keys in counts.items():
        for key, count in keys.items():
            if key is not None:
                total[key] += count
                found_in.setdefault(key, []).append(number)
    sampled = sum(sum(keys.values()) for keys in counts.values())
    sizes = [ends[each] - begins[each] for each in ends]
    return Skew(
        tuple(_partition(each.partition, ends[each] - begins[each], counts[each.partition]) for each in places),
        tuple(
            KeyShare(_text(key), count, count / sampled, tuple(sorted(found_in[key])))
            for key, count in total.most_common(_TOP)
        ),
        sampled,
        len(total),
        max(sizes) * len(sizes) / sum(sizes) if sum(sizes) else 1.0,
    )


def _partition(number: int, records: int, keys: Counter[bytes | None]) -> PartitionKeys:
    sampled = sum(keys.values())
    without = keys.pop(None, 0)
    [(heaviest, count)] = keys.most_common(1) or [(None, 0)]
    return PartitionKeys(
        number,
        records,
        sampled,
        len(keys),
        without,
        "" if heaviest is None else _text(heaviest),
        count / sampled if sampled else 0.0,
    )


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key.hex()
