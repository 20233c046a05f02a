"""Claims to lead, ends of epochs and of registrations: the pure parts."""

from __future__ import annotations

import pytest
from odradek.engine.leaders.brokers import Registration, Sighting, is_over, look
from odradek.engine.partition.claims import (
    FLEET_CLAIM,
    AskBrokers,
    Claim,
    Follow,
    Lead,
    Take,
    Verdict,
    check_leader_epoch,
    decide_leadership,
)
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.leader_epochs import UNDEFINED, EpochHistory, EpochStart
from odradek.errors import ErrorCode, KafkaError
from odradek.model.cluster import FLEET_BROKER_ID, Broker

MINE = Claim(1, 6)


@pytest.mark.parametrize(
    ("head", "broker", "claim", "is_expired", "verdict"),
    [
        ((0, 0), FLEET_BROKER_ID, None, None, Lead(FLEET_CLAIM)),
        ((0, 9), FLEET_BROKER_ID, None, None, Lead(FLEET_CLAIM)),
        ((2, 6), FLEET_BROKER_ID, None, None, AskBrokers(2)),
        ((2, 6), FLEET_BROKER_ID, None, False, Follow()),
        ((2, 6), FLEET_BROKER_ID, None, True, Take()),
        ((0, 5), 1, None, None, Take()),
        ((1, 6), 1, MINE, None, Lead(MINE)),
        ((1, 7), 1, MINE, None, Take()),  # another incarnation of this id
        ((1, 6), 1, None, None, Take()),
        ((0, 7), 1, MINE, None, Take()),
        ((2, 7), 1, MINE, None, AskBrokers(2)),
        ((2, 7), 1, MINE, False, Follow()),
        ((2, 7), 1, MINE, True, Take()),
    ],
)
def test_who_may_lead(
    head: tuple[int, int], broker: int, claim: Claim | None, is_expired: bool | None, verdict: Verdict
) -> None:
    leader_id, epoch = head
    assert (
        decide_leadership(PartitionHead(leader_id=leader_id, leader_epoch=epoch), broker, claim, is_expired) == verdict
    )


@pytest.mark.parametrize(
    ("client", "code"), [(-1, None), (5, None), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_client_with_another_epoch_is_told_which_way(client: int, code: ErrorCode | None) -> None:
    head = PartitionHead(leader_epoch=5)
    if code is None:
        check_leader_epoch(client, head)
        return
    with pytest.raises(KafkaError) as failure:
        check_leader_epoch(client, head)
    assert failure.value.code is code


def history(*starts: tuple[int, int], end: int = 100) -> EpochHistory:
    return EpochHistory(tuple(EpochStart(epoch, offset) for epoch, offset in starts), end)


FIVE = history((0, 0), (1, 10), (2, 10), (3, 40), (4, 40))


@pytest.mark.parametrize(
    ("epoch", "log_start", "expected"),
    [
        (0, 0, (0, 10)),
        (1, 0, (0, 10)),  # nothing was written under epoch 1: what is asked is where 0 ended
        (2, 0, (2, 40)),
        (3, 0, (2, 40)),
        (4, 0, (4, 100)),
        (5, 0, UNDEFINED),
        (-1, 0, UNDEFINED),
        (0, 20, (0, 20)),  # below the log start: the first offset that is left
        (2, 20, (2, 40)),
        (2, 60, (2, 60)),
    ],
)
def test_where_an_epoch_ended(epoch: int, log_start: int, expected: tuple[int, int]) -> None:
    assert FIVE.end_offset(epoch, log_start) == expected


def test_the_epoch_of_an_offset_is_that_of_its_append() -> None:
    assert [FIVE.at(offset) for offset in (0, 9, 10, 39, 40, 99)] == [0, 0, 2, 2, 4, 4]
    assert history((0, 0), end=0).at(0) == 0


def registration(version: int, expires_ms: int) -> Registration:
    return Registration(Broker(1, "gateway", 9092), b"i" * 16, version, session_ms=10_000, expires_ms=expires_ms)


def test_a_registration_is_over_by_the_clock_at_first_sight() -> None:
    registered = registration(1, expires_ms=50_000)
    assert not is_over(registered, look(None, registered, 49_999, 0.0), 49_999, 0.0)
    assert is_over(registered, look(None, registered, 50_000, 0.0), 50_000, 0.0)


def test_who_has_left_is_gone_whatever_the_clock_says() -> None:
    registered = registration(1, expires_ms=0)
    assert is_over(registered, look(None, registered, -1, 0.0), -1, 0.0)


def test_one_that_stands_still_for_a_session_is_over_although_the_clock_is_an_hour_behind() -> None:
    registered = registration(7, expires_ms=3_600_000)
    sighting = look(None, registered, 0, now_s=5.0)
    sighting = look(sighting, registered, 9_999, now_s=14.9)
    assert not is_over(registered, sighting, 9_999, 14.9)
    assert is_over(registered, look(sighting, registered, 10_000, 15.0), 10_000, 15.0)


def test_one_that_moves_is_not_taken_for_gone_twice_by_a_clock_that_is_an_hour_ahead() -> None:
    sighting: Sighting | None = None
    verdicts = []
    for second in range(0, 60, 2):
        registered = registration(version=second // 3, expires_ms=second * 1000 + 10_000)
        now_ms = second * 1000 + 3_600_000
        sighting = look(sighting, registered, now_ms, float(second))
        verdicts.append(is_over(registered, sighting, now_ms, float(second)))
    assert verdicts[3:] == [False] * 27, "once it has moved, only standing still counts"
    assert is_over(registered, look(sighting, registered, now_ms, second + 10.1), now_ms, second + 10.1)
