"""From offsets to ranges, the input of Spark tasks. Pure, and plain data: a driver plans, executors get the ranges.

A range is a run of neighbouring pieces of one partition (a piece is one batch of the WAL, or a run of whole batches of
a segment). Ranges end at piece boundaries, so no byte is read twice. Small ranges share a task: a task in Python costs
Spark some tens of milliseconds, whatever it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from odradek.engine.read.log_reader import Piece
from odradek.model.topic_partition import PartitionId

TASK_BYTES = 256 * 1024
"""Stored bytes of records that are read in less time than another task takes to start."""


@dataclass(frozen=True, slots=True)
class ReadRange:
    """The offsets [start_offset, end_offset) of a partition, and the pieces that held them when it was planned."""

    topic: str
    topic_id: UUID
    partition: int
    start_offset: int
    end_offset: int
    pieces: tuple[Piece, ...]

    @property
    def partition_id(self) -> PartitionId:
        return PartitionId(self.topic_id, self.partition)

    @property
    def size_bytes(self) -> int:
        """Stored bytes."""
        return sum(piece.length for piece in self.pieces)

    @property
    def wanted_bytes(self) -> int:
        """About the stored bytes of the range's own records: its first and last piece may hold others."""
        return sum(
            piece.length
            * (min(piece.end_offset, self.end_offset) - max(piece.base_offset, self.start_offset))
            // (piece.end_offset - piece.base_offset)
            for piece in self.pieces
        )


def split_range(whole: ReadRange, range_bytes: int) -> list[ReadRange]:
    """Cut a range at piece boundaries into ranges of about `range_bytes`; a larger piece becomes one range."""
    return [
        replace(
            whole,
            start_offset=max(whole.start_offset, pieces[0].base_offset),
            end_offset=min(whole.end_offset, pieces[-1].end_offset),
            pieces=tuple(pieces),
        )
        for pieces in group_pieces(whole.pieces, range_bytes)
    ]


def bundle_ranges(ranges: Iterable[ReadRange], bytes_max: int) -> list[tuple[ReadRange, ...]]:
    """Return what tasks read: neighbouring ranges with at most `bytes_max` of records in one, a larger one alone."""
    bundles: list[list[ReadRange]] = []
    size = 0
    for read_range in ranges:
        wanted = read_range.wanted_bytes
        if bundles and size + wanted <= bytes_max:
            bundles[-1].append(read_range)
            size += wanted
        else:
            bundles.append([read_range])
            size = wanted
    return [tuple(bundle) for bundle in bundles]


def range_bytes_of(sizes: Iterable[int], range_bytes: int, min_partitions: int | None) -> int:
    """Return the size of ranges that gives at least `min_partitions` of them, if there is enough to split.

    Args:
        sizes: stored bytes of each partition to read.
    """
    sizes = list(sizes)
    if min_partitions is None or min_partitions <= len(sizes):
        return range_bytes
    # Each partition's last range is smaller than the others, so a little less than an even share.
    return max(1, min(range_bytes, sum(sizes) // min_partitions))


def group_pieces(pieces: Iterable[Piece], bytes_max: int) -> Iterator[Sequence[Piece]]:
    """Yield groups of neighbours with at most `bytes_max` bytes; at least one piece per group."""
    group: list[Piece] = []
    size = 0
    for piece in pieces:
        if group and size + piece.length > bytes_max:
            yield group
            group, size = [], 0
        group.append(piece)
        size += piece.length
    if group:
        yield group
