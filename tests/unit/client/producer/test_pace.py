"""How long an open batch waits."""

from __future__ import annotations

from typing import Any

import pytest
from odradek.client.config import ProducerConfig
from odradek.client.producer.pace import Pace
from odradek.errors import KafkaError


def _pace(**configs: Any) -> Pace:
    return Pace(ProducerConfig(bootstrap_servers="http://localhost:1", **configs))


def test_by_default_a_batch_waits_for_the_answer_in_flight_only() -> None:
    pace = _pace()
    assert pace.due_s(7, None) == 7
    for _ in range(100):
        pace.observe(0.1)
    assert 5.1 < pace.due_s(7, 5) < 5.11
    assert pace.waits_for_answers


def test_an_answer_that_varies_is_waited_for_longer() -> None:
    pace = _pace()
    for number in range(200):
        pace.observe(0.05 if number % 2 else 0.15)
    assert 0.15 < pace.latency_s < 0.5


def test_linger_ms_waits_that_long_whatever_is_in_flight() -> None:
    pace = _pace(linger_ms=20)
    assert pace.due_s(7, None) == pace.due_s(7, 5) == 7.02
    assert not pace.waits_for_answers


def test_a_budget_is_spent_on_waiting_less_the_latency() -> None:
    pace = _pace(latency_budget_ms=500)
    assert pace.due_s(7, None) == 7, "no latency is known yet"
    for _ in range(200):
        pace.observe(0.1)
    assert 7.39 < pace.due_s(7, None) <= 7.4
    for _ in range(200):
        pace.observe(2.0)
    assert pace.due_s(7, 5) == 7


def test_linger_and_budget_exclude_each_other() -> None:
    with pytest.raises(KafkaError, match="either linger_ms or latency_budget_ms"):
        _pace(linger_ms=1, latency_budget_ms=1)
    with pytest.raises(KafkaError, match="at least latency_budget_ms"):
        _pace(latency_budget_ms=100_000)
