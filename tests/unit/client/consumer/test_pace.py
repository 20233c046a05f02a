"""When a consumer rests instead of letting a function wait."""

from __future__ import annotations

import pytest
from odradek.client.consumer.pace import FetchPace


def test_a_quiet_consumer_rests_longer_and_longer() -> None:
    pace = FetchPace(1.0)
    pace.restart(100.0)
    assert pace.rest_s(100.1) == 0, "a rest so short is not worth a call"
    assert pace.rest_s(102.0) == pytest.approx(0.5)
    assert pace.rest_s(3600) == 1.0
    assert FetchPace(0).rest_s(3600) == 0


def test_a_consumer_of_rare_records_rests_right_after_one() -> None:
    pace = FetchPace(1.0)
    for second in range(0, 20, 2):
        pace.found(100, second)
    assert pace.rest_s(18.0) == pytest.approx(0.5, rel=0.01)


def test_a_consumer_of_a_steady_stream_never_rests() -> None:
    pace = FetchPace(1.0)
    for number in range(100):
        pace.found(100, number / 10)
    assert pace.rest_s(9.9) == 0


def test_a_consumer_rests_until_fetch_min_bytes_are_expected() -> None:
    pace = FetchPace(1.0, 5_000, 2.0)
    for number in range(100):
        pace.found(1_000, number / 10)
    assert pace.rest_s(9.9) == pytest.approx(0.5, rel=0.05)
    slow = FetchPace(1.0, 5_000, 2.0)
    for number in range(10):
        slow.found(100, number)
    assert slow.rest_s(9.0) == 2.0, "fetch_max_wait_ms bounds it"


def test_a_change_of_positions_ends_the_rests() -> None:
    pace = FetchPace(1.0)
    pace.found(1, 100.0)
    pace.restart(200.0)
    assert pace.rest_s(200.0) == 0
