"""Triggers that shifts keep for the topics of sinks, and what a call of one does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from odradek.connect.runtime import function as functions
from odradek.connect.runtime.function import BOOTSTRAP_SERVERS, WAKES, WOKEN, ConnectFunction
from odradek.connect.runtime.shift import Ended
from odradek.connect.runtime.wakes import settle, trigger_name
from odradek.connect.state.cluster_state import PAUSED, ConnectorState
from odradek.errors import ErrorCode, KafkaError
from odradek.model.trigger import Trigger
from odradek.testing.manual_clock import ManualClock
from odradek.triggers.definition import check_trigger

ARN = "arn:aws:lambda:eu-west-1:123456789012:function:odradek-dev-connect"
FILES, DATAGEN = "FileStreamSink", "Datagen"


class State:
    """The part of ClusterState that is looked at."""

    def __init__(self, **connectors: ConnectorState) -> None:
        self._connectors = connectors

    def names(self) -> list[str]:
        return sorted(self._connectors)

    def get(self, name: str) -> ConnectorState:
        return self._connectors[name]


class Triggers:
    """An admin client that keeps triggers, and refuses what the service would."""

    def __init__(self, *topics: str) -> None:
        self.topics = topics
        self.kept: dict[str, Trigger] = {}

    def list_topics(self) -> list[str]:
        return list(self.topics)

    def list_triggers(self) -> list[Trigger]:
        return list(self.kept.values())

    def create_trigger(self, name: str, topic: str, function: str, **options: Any) -> Trigger:
        if topic not in self.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "create it first")
        trigger = Trigger(name=name, topic=topic, function=function, **options)
        check_trigger(trigger)
        self.kept[name] = trigger
        return trigger

    def delete_trigger(self, name: str) -> None:
        del self.kept[name]


def connector(kind: str, target: str = "STARTED", **config: str) -> ConnectorState:
    return ConnectorState({"connector.class": kind, **config}, target=target)


def test_the_topics_of_running_sinks_have_triggers_and_no_others() -> None:
    admin = Triggers("orders", "payments", "logs-a", "logs-b", "rest")
    admin.create_trigger("mine", "rest", ARN)
    admin.create_trigger("connect.other.rest", "rest", ARN)
    state = State(
        files=connector(FILES, topics="orders, payments, missing"),
        more=connector(FILES, topics="orders"),
        logs=connector(FILES, **{"topics.regex": "logs-.*"}),
        paused=connector(FILES, PAUSED, topics="rest"),
        source=connector(DATAGEN, topics="rest"),
        broken=connector("no.such.Class", topics="rest"),
    )
    settle(admin, "etl", state, ARN)  # type: ignore[arg-type]
    own = {"connect.etl.orders", "connect.etl.payments", "connect.etl.logs-a", "connect.etl.logs-b"}
    assert set(admin.kept) == {"mine", "connect.other.rest", *own}
    assert all(admin.kept[name].newest_only for name in own)
    settle(admin, "etl", State(files=connector(FILES, topics="payments")), ARN)  # type: ignore[arg-type]
    assert set(admin.kept) == {"mine", "connect.other.rest", "connect.etl.payments"}


def test_a_trigger_of_the_name_that_calls_another_function_is_left_alone() -> None:
    admin = Triggers("orders")
    admin.create_trigger("connect.etl.orders", "orders", "arn:aws:lambda:eu-west-1:123456789012:function:mine")
    settle(admin, "etl", State(), ARN)  # type: ignore[arg-type]
    assert set(admin.kept) == {"connect.etl.orders"}


def test_names_fit_and_differ() -> None:
    names = {trigger_name("etl", "t" * 240 + letter) for letter in "ab"}
    assert len(names) == 2
    assert all(len(name) == 100 for name in names)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The function that triggers are kept for, at each shift."""
    found: list[str] = []

    def run(settings: Any, shift: Any, *, clock: Any, look: Any) -> Ended:
        if look is not None:
            look(State())
        clock.advance(15)
        return Ended.IDLE

    monkeypatch.setattr(functions, "run_shift", run)
    monkeypatch.setattr(functions, "keep_wakes", lambda settings, state, function: found.append(function))
    return found


def test_a_call_of_a_trigger_is_answered_at_once_and_a_shift_answers_all_calls_before_it(looked: list[str]) -> None:
    clock, calls = ManualClock(), []
    environ = {BOOTSTRAP_SERVERS: "https://c.example", WAKES: "true"}
    function = ConnectFunction(environ, calls.append, clock=clock)
    event: Mapping[str, Any] = {"eventSource": "aws:kafka", "records": {}}
    for _ in range(3):
        assert function.answer(event, 900_000, ARN) == {"ended": "handed over"}
    assert [each["source"] for each in calls] == [WOKEN["source"]] * 3
    assert looked == []
    clock.advance(10)
    answers = [function.answer(each, 900_000, ARN)["ended"] for each in calls]
    assert answers == ["idle", "done before", "done before"]
    assert looked == [ARN]
    function.answer(event, 900_000, ARN)
    assert function.answer(calls[-1], 900_000, ARN) == {"ended": "idle"}, "it came after the shift had begun"
    assert function.answer({"source": "aws.events"}, 900_000, ARN) == {"ended": "idle"}
