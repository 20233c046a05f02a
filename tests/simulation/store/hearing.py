"""A process's responses to produce requests, noted in the book of answers (books/answer_book.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from odradek.format.item_keys import partition_pk
from odradek.model.log import ProducePartition, ProduceResult
from odradek.model.topic_partition import PartitionId

if TYPE_CHECKING:
    from tests.simulation.world import Process

_SOON_S = 15.0  # a request's time is 25 s
_ATTEMPTS_MIN = 20  # with fewer, a few conflicts with other writers use them up


def hear_answers(process: Process) -> None:
    """Have the ledger hear what the process's engine answers to produce requests."""
    book, produce = process.world.ledger.answers, process.engine.produce
    under_way: list[tuple[float, int]] = []  # when requests began, and with how many troubles before them

    def troubles_of() -> int:
        return process.troubles + process.world.throttle.refused

    async def heard(partitions: Sequence[ProducePartition], **options: Any) -> list[ProduceResult]:
        if options.get("transactional_id") is not None:
            return await produce(partitions, **options)
        calls = [book.begins(process.name, request) for request in partitions]
        # What is wrong with one request is the answer to those that came behind it, too.
        began = min([_now_s(), *(at_s for at_s, _ in under_way)]), min([troubles_of(), *(n for _, n in under_way)])
        under_way.append(began)
        try:
            results = await produce(partitions, **options)
        finally:
            under_way.remove(began)
        began_s, troubles = began
        is_untroubled = (
            troubles_of() == troubles
            and _now_s() - began_s < _SOON_S
            and process.engine.settings.append_attempts_max >= _ATTEMPTS_MIN
        )
        for call, request, result in zip(calls, partitions, results, strict=True):
            topic_id = result.topic_id or request.topic_id
            if call is not None and topic_id is not None:
                pk = partition_pk(PartitionId(topic_id, request.partition))
                book.ends(call, pk, result, is_untroubled=is_untroubled)
        return results

    process.engine.produce = heard  # type: ignore[method-assign]


def _now_s() -> float:
    return asyncio.get_running_loop().time()
