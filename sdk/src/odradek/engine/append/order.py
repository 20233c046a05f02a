"""The order of a producer's batches within one process, and the answer to a batch with a missing predecessor.

The store refuses every batch that is not the producer's next (append/decisions.py). That is safe, but clients react
differently to a refusal (docs/decisions/0009), so no answer is given that Apache Kafka would not give.

Every partition of a produce request takes a `Turn` when it arrives, before anything is awaited. Uploads run side by
side; the head is updated when the turn has come:

    a batch of an idempotent producer   after the batch that ends where it begins, and after those of an older epoch
                                        that came before it over the same connection
    a plain batch of a connection       after those that came before it over the same connection
    anything else                       at once

The end of a turn decides its followers in the same step, before any caller gets a result:

    appended           the follower continues
    refused for now    the follower is refused for now too, without an update: the client sends both again
      (or unknown)
    refused finally    the follower continues and meets the gap

A batch that is ahead of what the log expects, and whose predecessor is not in this process, is `decide_ahead`'s. Over a
connection requests arrive as they were sent. So the predecessor is on its way to another broker, waits in the client to
be sent again, or was given up. While it may still come the follower is told to come again (retriable, surely not
appended). Every client that keeps several batches in flight sends a follower again only behind its predecessor, or when
it is done with the predecessor: a follower that comes `LONE_ARRIVALS` times more without it shows a gap. Then the
answer is OUT_OF_ORDER_SEQUENCE_NUMBER, or, for a producer of which the log knows nothing, the batch is accepted:
both as in Apache Kafka. No clock has a part in it.

Functions have no connection: requests overtake each other on their way. There the caller waits `sequence_wait_ms`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from uuid import UUID

from odradek.engine.append.decisions import Reject
from odradek.engine.partition.head import next_sequence
from odradek.errors import ErrorCode, FormatError
from odradek.format.batch_header import iter_headers
from odradek.model.log import ProducePartition, ProduceResult

LONE_ARRIVALS = 2  # of a follower, after the first, without its predecessor: kafka-python sends a failed run in reverse
_GAPS_KEPT = 4096

COME_AGAIN = Reject(
    ErrorCode.NOT_ENOUGH_REPLICAS,
    "the batch before this one has not been appended; this one was not either: send both again in order",
)
# What is wrong with the partition and not with one batch: the followers are told the same.
_SHARED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)

_Line = tuple[str, UUID | None, int, bool, int]  # topic by name or id, partition, producer (or connection): its id
_Mark = tuple[_Line, int, int]  # a line, an epoch, where a batch begins


class Fate(Enum):
    """The outcome of a turn."""

    APPENDED = "appended"
    FOR_NOW = "refused for now, or not known"
    FOR_GOOD = "refused for good"


class AheadAnswer(Enum):
    """The answers to a batch whose predecessor is missing."""

    COME_AGAIN = "retriable, surely not appended"
    GAP = "out of order"
    TAKE = "append it all the same"


@dataclass(frozen=True, slots=True)
class Missing:
    """Facts of this process about the missing predecessor of a batch."""

    is_refused_for_good: bool = False
    answered: int = 0  # how often the batch was told to come again since its predecessor came last


def fate_of(result: ProduceResult) -> Fate:
    """Return the outcome that a batch's result means for its followers."""
    if result.error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return Fate.APPENDED
    if result.error.is_retryable or not result.error.has_no_side_effects:
        return Fate.FOR_NOW
    return Fate.FOR_GOOD


def follower_result(result: ProduceResult | None) -> ProduceResult | Reject:
    """Return the answer to the followers of a batch that was refused for now."""
    if result is None or result.error not in _SHARED:
        return COME_AGAIN
    return result


def decide_ahead(missing: Missing, *, is_known: bool) -> AheadAnswer:
    """Decide the answer to a batch of a connection that is ahead of the log.

    Args:
        is_known: True if the log knows the producer.
    """
    if is_known and missing.is_refused_for_good:
        return AheadAnswer.GAP
    if missing.answered < LONE_ARRIVALS:
        return AheadAnswer.COME_AGAIN
    return AheadAnswer.GAP if is_known else AheadAnswer.TAKE


class Turn:
    """The place of one partition's batches among those of their producer. Made by `AppendOrder.enter`."""

    def __init__(self, order: AppendOrder, request: ProducePartition) -> None:
        self._order = order
        self.connection = request.connection
        self.line, self.epoch, self.begin, self.end = _place(request)
        self.fate: Fate | None = None  # None: it has not ended
        self._ended: asyncio.Future[None] | None = None  # made for who waits: hardly any turn is waited for
        self.waits_for: list[Turn] = []
        self.followers: list[Turn] = []
        self._refusal: ProduceResult | Reject | None = None

    def finish(self, fate: Fate) -> None:
        """It has ended: who waits for it goes on."""
        self.fate = fate
        if self._ended is not None:
            self._ended.set_result(None)

    async def ended(self) -> None:
        """Wait for the end; who stops waiting keeps nobody else from it."""
        if self.fate is None:
            if self._ended is None:
                self._ended = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._ended])

    @property
    def has_come(self) -> bool:
        """True if it waits for nobody and has not been refused."""
        return self._refusal is None and all(turn.fate is not None for turn in self.waits_for)

    async def come(self) -> ProduceResult | Reject | None:
        """Wait until the head may be updated; not None: never, and this is the answer."""
        for turn in self.waits_for:
            await turn.ended()
        self.waits_for = []
        return self._refusal

    def follows_only(self, turns: Sequence[Turn]) -> bool:
        """Return True if it has not been refused, and its turn comes with the end of these."""
        return self._refusal is None and all(each.fate is not None or each in turns for each in self.waits_for)

    async def predecessor(self) -> bool:
        """Wait for the predecessor if it has come to this process meanwhile and its turn too; whether it had."""
        turn = self._order.predecessor(self)
        if turn is None or turn.fate is not None or turn.waits_for:
            return False
        await turn.ended()
        return True

    def ahead(self, *, is_known: bool) -> AheadAnswer:
        """Return the answer to a batch of a connection whose predecessor is missing."""
        return self._order.ahead(self, is_known=is_known)

    def settle(self, result: ProduceResult | None) -> None:
        """Report the outcome, once (None: unknown); it decides the followers."""
        self._order.settle(self, Fate.FOR_NOW if result is None else fate_of(result), result)

    def refuse(self, refusal: ProduceResult | Reject) -> None:
        """Its predecessor was refused for now."""
        self._refusal = refusal


class AppendOrder:
    """The turns of one process. Its memory is bounded by the requests in flight and by `_GAPS_KEPT`."""

    def __init__(self) -> None:
        self._lines: dict[_Line, list[Turn]] = {}  # turns that have not ended, as they came
        self._missing: OrderedDict[_Mark, Missing] = OrderedDict()

    def enter(self, request: ProducePartition) -> Turn:
        """Take a turn: the order of these calls is the order of arrival."""
        turn = Turn(self, request)
        if turn.line is None:
            return turn
        line = self._lines.setdefault(turn.line, [])
        if turn.begin < 0:
            turn.waits_for = list(line)
        else:
            turn.waits_for = [each for each in line if _is_older(each, turn)]
            predecessor = self.predecessor(turn)
            if predecessor is not None:
                predecessor.followers.append(turn)
                turn.waits_for.append(predecessor)
            self._missing.pop((turn.line, turn.epoch, turn.end), None)  # what follows it is alone no longer
        line.append(turn)
        return turn

    def predecessor(self, turn: Turn) -> Turn | None:
        """The newest turn in line that ends where this one begins."""
        if turn.line is None or turn.begin < 0:
            return None
        same = (each for each in reversed(self._lines.get(turn.line, ())) if each is not turn)
        return next((each for each in same if (each.epoch, each.end) == (turn.epoch, turn.begin)), None)

    def ahead(self, turn: Turn, *, is_known: bool) -> AheadAnswer:
        """See Turn.ahead."""
        assert turn.line is not None
        mark = (turn.line, turn.epoch, turn.begin)
        missing = self._missing.get(mark, Missing())
        answer = decide_ahead(missing, is_known=is_known)
        if answer is AheadAnswer.COME_AGAIN:
            self._note(mark, replace(missing, answered=missing.answered + 1))
        return answer

    def settle(self, turn: Turn, fate: Fate, result: ProduceResult | None) -> None:
        """See Turn.settle."""
        ended = [(turn, fate, follower_result(result) if fate is Fate.FOR_NOW else COME_AGAIN)]
        while ended:  # a loop, since a long line may fall at once
            turn, fate, refusal = ended.pop()
            if turn.fate is not None:
                continue
            turn.finish(fate)
            if turn.line is None:
                continue
            twins = self._leave(turn, turn.line)
            if fate is Fate.APPENDED:
                ended += [(twin, fate, refusal) for twin in twins]
            elif fate is Fate.FOR_GOOD and turn.begin >= 0:
                self._note((turn.line, turn.epoch, turn.end), Missing(is_refused_for_good=True))
            elif fate is Fate.FOR_NOW:
                for follower in turn.followers:
                    if follower.fate is None:
                        follower.refuse(refusal)
                        ended.append((follower, fate, refusal))
            turn.followers = []

    def _leave(self, turn: Turn, key: _Line) -> Sequence[Turn]:
        """Remove the turn from its line, and earlier attempts at the same batch, for which nothing waits now."""
        line = self._lines.get(key, [])
        if turn not in line:
            return ()
        at = line.index(turn)
        twins = [] if turn.begin < 0 else [each for each in line[:at] if _is_same(each, turn)]
        left = [each for each in line if each is not turn and each not in twins]
        if left:
            self._lines[key] = left
        else:
            del self._lines[key]
        return twins

    def _note(self, mark: _Mark, missing: Missing) -> None:
        self._missing[mark] = missing
        self._missing.move_to_end(mark)
        if len(self._missing) > _GAPS_KEPT:
            self._missing.popitem(last=False)


def _is_older(turn: Turn, than: Turn) -> bool:
    """Return True if the turn has an epoch that the other, which came later on the same connection, fences."""
    return turn.connection is not None and turn.connection == than.connection and turn.epoch < than.epoch


def _is_same(turn: Turn, other: Turn) -> bool:
    return (turn.epoch, turn.begin, turn.end) == (other.epoch, other.begin, other.end)


def _place(request: ProducePartition) -> tuple[_Line | None, int, int, int]:
    """Return the line of a request's batches, their epoch, and their first and next sequence (-1: none)."""
    try:
        headers = [header for _, header in iter_headers(request.records)]
    except FormatError:
        return None, -1, -1, -1  # refused by the validation
    if not headers:
        return None, -1, -1, -1
    first, last = headers[0], headers[-1]
    if first.producer_id >= 0 and first.base_sequence >= 0:
        line = (request.topic, request.topic_id, request.partition, True, first.producer_id)
        end = next_sequence(last.base_sequence, last.last_offset_delta + 1)
        return line, first.producer_epoch, first.base_sequence, end
    if request.connection is None:
        return None, -1, -1, -1
    return (request.topic, request.topic_id, request.partition, False, request.connection), -1, -1, -1
