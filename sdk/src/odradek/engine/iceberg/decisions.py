"""What an Iceberg table has to have: names, files and covered offsets. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.partition.index_row import IndexRow
from odradek.format.object_keys import segment_key
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.ports.table_catalog import TableName

OFFSETS = "odradek.offsets"
"""In the summary of each snapshot: the covered offsets of every partition, {"0": [[first, end], ...]}, half-open."""

Covered = dict[int, list[tuple[int, int]]]
_NOT_IN_NAMES = re.compile(r"[^a-z0-9_]")
_FILE = re.compile(r"topics/[0-9a-f-]{36}/(\d+)/(\d{20})-[0-9a-f]{32}\.parquet")


def table_name(topic: Topic, config: TopicConfig) -> TableName | None:
    """Return the name of a topic's Iceberg table; None if it has none.

    Glue and Athena take lower-case letters, digits and underscores: other characters of a topic's name become one.
    """
    if not config.is_iceberg:
        return None
    return TableName(config.iceberg_namespace, config.iceberg_table or _NOT_IN_NAMES.sub("_", topic.name.lower()))


def files_of(partition: PartitionId, rows: Iterable[IndexRow]) -> dict[str, tuple[int, int]]:
    """Return the data files of a partition's rows, and the offsets that each answers for."""
    return {
        segment_key(partition, row.base_offset, row.segment_id, is_columnar=True): (row.base_offset, row.end_offset)
        for row in rows
        if row.is_columnar and row.segment_id is not None
    }


def covered_by(files: Mapping[str, tuple[int, int]]) -> Covered:
    """Return the offsets that files cover, by partition; neighbours are one range."""
    found: Covered = {}
    for key, span in sorted(files.items(), key=lambda each: each[1]):
        place = place_of(key)
        if place is None:
            continue
        ranges = found.setdefault(place[0], [])
        if ranges and ranges[-1][1] >= span[0]:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], span[1]))
        else:
            ranges.append(span)
    return dict(sorted(found.items()))


def covered_without(covered: Covered, removed: Iterable[str], kept: Iterable[str]) -> Covered:
    """Return what remains covered when files go: a file answers up to the next one's first offset at most.

    Args:
        removed, kept: files of the table; all of its files are one or the other.
    """
    places = [(place, key) for keys in (removed, kept) for key in keys if (place := place_of(key)) is not None]
    gone = set(removed)
    by_partition: dict[int, list[tuple[int, bool]]] = {}
    for (number, base), key in places:
        by_partition.setdefault(number, []).append((base, key in gone))
    found: Covered = {}
    for number, ranges in covered.items():
        bases = sorted(by_partition.get(number, []))
        left: list[tuple[int, int]] = []
        for first, end in ranges:
            inside = [each for each in bases if first <= each[0] < end]
            for i, (base, goes) in enumerate(inside):
                stop = inside[i + 1][0] if i + 1 < len(inside) else end
                if not goes:
                    if left and left[-1][1] == base:
                        left[-1] = (left[-1][0], stop)
                    else:
                        left.append((base, stop))
        if left:
            found[number] = left
    return found


def place_of(key: str) -> tuple[int, int] | None:
    """Return partition and base offset of a data file; None for another object."""
    match = _FILE.fullmatch(key)
    return None if match is None else (int(match[1]), int(match[2]))


def encode_covered(covered: Covered) -> str:
    """Return covered offsets as the property `OFFSETS`."""
    return json.dumps({str(number): ranges for number, ranges in covered.items()}, separators=(",", ":"))


def decode_covered(text: str | None) -> Covered:
    """Return the covered offsets that a summary says; none for a summary that another writer left."""
    try:
        found = json.loads(text or "{}")
        return {int(number): [(int(first), int(end)) for first, end in ranges] for number, ranges in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def is_ours(key: str, prefix: str) -> bool:
    """Return True if a data file of a table is one of the topic's objects. Files of other writers are left alone."""
    return key.startswith(prefix)


def settled(epochs: Mapping[int, int], now: Mapping[int, int]) -> bool:
    """Return True if no partition was maintained since the table was brought up to its rows."""
    return all(epochs.get(number, 0) == epoch for number, epoch in now.items())


def newest(values: Sequence[str], most: int) -> str:
    """Return some of several reasons as one text."""
    return "; ".join(values[:most]) + (f"; and {len(values) - most} more" if len(values) > most else "")
