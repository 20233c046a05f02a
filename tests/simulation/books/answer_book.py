"""Responses to producers, against the fate of their batches.

* an answer that says that nothing was appended is a promise: no entry of that request is in the log, nor enters it
  later, though one of its writes may still be on its way
* an idempotent producer is not told to come again because of the store by a process that met no fault (a plain one may
  be, once, where its clock is behind: docs/decisions/0002)

A batch that its client sends again is another request, with an upload of its own: the upload tells them apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from odradek.engine.append.refusals import MAYBE_APPENDED, NOT_APPENDED
from odradek.errors import ErrorCode
from odradek.format.batch_header import iter_headers
from odradek.format.tail_entry import TailEntry
from odradek.model.log import ProducePartition, ProduceResult

_IN_THE_LOG = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_OF_THE_STORE = frozenset({NOT_APPENDED.message, MAYBE_APPENDED.message})


class Place(NamedTuple):
    """The place of the bytes of a partition's entry."""

    pk: str
    object_id: bytes
    position: int


@dataclass(eq=False)
class Call:
    """A produce request that a process answers.

    Attributes:
        first_upload: of the process's uploads, the first that may be this request's.
        is_alone: the process answers no other request with the same batch meanwhile.
    """

    caller: str
    batch: bytes
    is_plain: bool
    first_upload: int
    is_alone: bool = True


class AnswerBook:
    """The promises made.

    Args:
        problem: takes note of what is wrong.
    """

    def __init__(self, problem: Callable[[str], None]) -> None:
        self._problem = problem
        self._uploads: dict[str, list[tuple[bytes, bytes]]] = defaultdict(list)
        self._under_way: dict[tuple[str, bytes], list[Call]] = defaultdict(list)
        self._refused: dict[Place, str] = {}
        self._there: set[Place] = set()

    def uploaded(self, caller: str, object_id: bytes, content: bytes) -> None:
        """A WAL object or item was created by a call whose sender gets the answer."""
        self._uploads[caller].append((object_id, content))

    def entered(self, pk: str, base_offset: int, entry: TailEntry) -> None:
        """An entry entered a log."""
        batch_place = Place(pk, entry.object_id, entry.position)
        self._there.add(batch_place)
        if batch_place in self._refused:
            self._problem(
                f"{pk}: the batch at {base_offset} entered, and its sender was told {self._refused[batch_place]}"
            )

    def begins(self, caller: str, request: ProducePartition) -> Call | None:
        """A process begins to answer; None: the request is not judged."""
        batch = bytes(request.records)
        headers = [header for _, header in iter_headers(batch)]
        if len(headers) != 1:
            return None
        call = Call(caller, batch, headers[0].producer_id < 0, len(self._uploads[caller]))
        others = self._under_way[caller, batch]
        others.append(call)
        if len(others) > 1:
            for other in others:
                other.is_alone = False
        return call

    def ends(self, call: Call, pk: str, result: ProduceResult, *, is_untroubled: bool) -> None:
        """It has answered.

        Args:
            is_untroubled: nothing went wrong with any of its calls, which did not take long.
        """
        self._under_way[call.caller, call.batch].remove(call)
        reply = f"{result.error.name}: {result.message}"
        if is_untroubled and not call.is_plain and result.message in _OF_THE_STORE:
            self._problem(f"{pk}: {call.caller} met no fault, and answered {reply}")
        if not call.is_alone or result.error in _IN_THE_LOG or not result.error.has_no_side_effects:
            return
        if result.error in _GONE:
            return  # an attempt may have been applied before the topic was deleted, and its records with it
        for object_id, content in self._uploads[call.caller][call.first_upload :]:
            position = content.find(call.batch)
            if position < 0:
                continue
            batch_place = Place(pk, object_id, position)
            if batch_place in self._there:
                self._problem(f"{pk}: a batch of {call.caller} is in the log, and its sender was told {reply}")
            self._refused[batch_place] = reply
