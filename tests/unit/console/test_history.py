"""Lag and cost over time, from looks."""

from __future__ import annotations

import pytest
from odradek.cost.prices import US_EAST_1, cost
from odradek.operations.history import HOUR_MS, History, storage_dollars_month
from odradek.operations.metrics import Look, Numbers, backlog_warnings
from odradek.ports.meter import Usage


def look(at_ms: int, topics: dict[str, int], writes: float) -> Look:
    numbers = Numbers({}, {}, writes * 10, 0.0, Usage(table_write_units=writes), {}, {})
    return Look(at_ms, sum(topics.values()), topics, numbers)


def test_an_hours_cost_is_shared_by_the_records_of_its_topics() -> None:
    past = History()
    past.add(look(0, {"a": 0, "b": 5}, 0), look(60_000, {"a": 30, "b": 15}, 1_000))
    [hour] = past.hours()
    assert (hour.records, hour.by_topic, hour.watched_ms) == (40, {"a": 30, "b": 10}, 60_000)
    assert hour.dollars == pytest.approx(cost(Usage(table_write_units=1_000)).total)
    assert past.topics() == {"a": pytest.approx(0.75 * hour.dollars), "b": pytest.approx(0.25 * hour.dollars)}


def test_hours_are_apart_and_the_newest_comes_first() -> None:
    past = History()
    past.add(look(0, {"a": 0}, 0), look(1_000, {"a": 1}, 1))
    past.add(look(HOUR_MS, {"a": 1}, 1), look(HOUR_MS + 1_000, {"a": 3}, 2))
    assert [(each.start_ms, each.records) for each in past.hours()] == [(HOUR_MS, 2), (0, 1)]


def test_a_service_that_started_again_counts_nothing_twice() -> None:
    past = History()
    past.add(look(0, {"a": 9}, 100), look(60_000, {"a": 1}, 1))
    assert past.hours() == []


def test_lag_is_kept_for_a_day_of_minutes_and_not_more_often_than_ten_seconds() -> None:
    past = History()
    for second in range(30):
        past.note_lag("g", second * 1_000, second)
    assert past.lag_of("g") == [(0, 0), (10_000, 10), (20_000, 20)]
    for minute in range(3_000):
        past.note_lag("h", minute * 60_000, minute)
    assert len(past.lag_of("h")) == 1_440
    assert past.lag_of("h")[-1][1] == 2_999


def test_the_stalest_group_makes_room() -> None:
    past = History()
    for number in range(501):
        past.note_lag(f"g{number}", number, 1)
    assert past.lag_of("g0") == []
    assert past.lag_of("g500") == [(500, 1)]


def test_storage_costs_what_the_price_list_says() -> None:
    assert storage_dollars_month(1024**3) == US_EAST_1.object_gb_month


def test_a_backlog_warns_from_the_alarms_limits_on() -> None:
    assert backlog_warnings({"tail_entries_max": 2_000, "sweep_backlog_seconds": 6 * 3600, "unread": 0}) == []
    assert len(backlog_warnings({"tail_entries_max": 2_001, "sweep_backlog_seconds": 6 * 3600 + 1, "unread": 1})) == 3
