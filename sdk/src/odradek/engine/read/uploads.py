"""What a fetch takes of uploads: the oldest first, so that partitions that lag read each upload together, and once.

An upload has batches of many partitions. Those of one fetch that stand at the same upload get it by one request.
Partitions that stand at different ones cost a request each, and equal shares would keep them apart for good: with fifty
partitions that is fifty times the requests. Where the oldest go first, the others are met, and from there on all move
together. Ids of uploads begin with their time; a log has them nearly in that order, and partitions of one head have
them in the same: those that were committed later than a newer one count as that one's followers.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from odradek.engine.read.segment_reader import Piece


def oldest_first(chains: Sequence[Sequence[Piece]], room_bytes: int, *, is_first: bool) -> list[int]:
    """How many pieces, from its first on, to read of each partition.

    Args:
        chains: the pieces of each partition by offset, all in uploads; none is empty.
        room_bytes: at most so many bytes in all.
        is_first: the very first piece is read however large.

    A piece of each comes before a second of any, in the given order, so that nobody starves.
    """
    counts = [0] * len(chains)
    following: list[tuple[str, int, int]] = []  # newest upload so far, pieces since it, number

    def take(number: int, newest: str, since: int) -> int:
        """Take the next piece of a partition and queue the one after it; return the bytes taken."""
        pieces = chains[number]
        taken = pieces[counts[number]].length
        counts[number] += 1
        if counts[number] < len(pieces):
            upload = pieces[counts[number]].upload
            after = (upload, 0, number) if upload > newest else (newest, since + 1, number)
            heapq.heappush(following, after)
        return taken

    for number, pieces in enumerate(chains):
        if pieces[0].length <= room_bytes or (is_first and number == 0):
            room_bytes -= take(number, pieces[0].upload, 0)
    while following:
        newest, since, number = heapq.heappop(following)
        if chains[number][counts[number]].length <= room_bytes:  # else a smaller one of another partition may fit
            room_bytes -= take(number, newest, since)
    return counts
