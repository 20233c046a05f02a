"""Triggers of the embedded service: records become calls, in order, at least once, with nothing that polls."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from odradek.errors import ErrorCode, KafkaError

from tests.support.engine import read_all
from tests.support.services.triggered import Triggered


@pytest.fixture(params=[1, 3], ids=["own heads", "shared heads"])
async def triggered(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Triggered]:
    async with Triggered(tmp_path, default_partitions_per_head=request.param) as running:
        yield running


async def test_each_record_calls_the_function_once_and_in_order(triggered: Triggered) -> None:
    await triggered.topic("orders", 3)
    await triggered.create()
    await triggered.drained()
    for number in range(20):
        await triggered.send("orders", b"%d" % number, partition=number % 3)
    status = await triggered.drained()
    assert triggered.offsets() == {"orders-0": [*range(7)], "orders-1": [*range(7)], "orders-2": [*range(6)]}
    assert status.failures == 0
    assert status.invocations == len(triggered.events)


async def test_an_event_is_that_of_msk(triggered: Triggered) -> None:
    await triggered.topic("orders")
    await triggered.create(starting_position="TRIM_HORIZON")
    await triggered.send("orders", b'{"id": 1}', key=b"k", headers=(("h", b"\x01\xff"), ("h", b"")))
    await triggered.drained()
    [event] = triggered.events
    assert list(event) == ["eventSource", "eventSourceArn", "bootstrapServers", "records"]
    assert event["eventSource"] == "aws:kafka"
    assert event["bootstrapServers"] == triggered.service.bootstrap_servers
    assert event["records"] == {
        "orders-0": [
            {
                "topic": "orders",
                "partition": 0,
                "offset": 0,
                "timestamp": 1_700_000_000_000,
                "timestampType": "CREATE_TIME",
                "key": base64.b64encode(b"k").decode(),
                "value": base64.b64encode(b'{"id": 1}').decode(),
                "headers": [{"h": [1, -1]}, {"h": []}],
            }
        ]
    }


async def test_latest_begins_after_what_is_there_and_trim_horizon_at_the_start(triggered: Triggered) -> None:
    await triggered.topic("orders")
    await triggered.send("orders", b"old")
    await triggered.create(name="latest")
    await triggered.create(name="all", starting_position="TRIM_HORIZON")
    await triggered.drained("all")
    assert triggered.offsets() == {"orders-0": [0]}
    await triggered.send("orders", b"new")
    await triggered.drained("all")
    await triggered.drained("latest")
    assert triggered.offsets() == {"orders-0": [0, 1, 1]}


async def test_at_timestamp_begins_at_the_first_record_of_that_time(triggered: Triggered) -> None:
    await triggered.topic("orders")
    await triggered.send("orders", b"a", b"b")
    await triggered.create(starting_position="AT_TIMESTAMP", starting_timestamp_ms=1_700_000_000_001)
    await triggered.send("orders", b"c")
    await triggered.drained()
    assert triggered.offsets() == {"orders-0": [2]}


async def test_a_batch_that_fails_is_bisected_and_the_bad_record_goes_to_the_failure_topic(
    triggered: Triggered,
) -> None:
    await triggered.topic("orders")
    await triggered.topic("failed")
    await triggered.create(bisect=True, retry_attempts=0, on_failure="topic:failed", starting_position="TRIM_HORIZON")

    def answer(event: dict[str, Any]) -> None:
        for record in event["records"]["orders-0"]:
            if base64.b64decode(record["value"]) == b"5":
                raise ValueError("five is bad")

    triggered.answer = answer
    await triggered.send("orders", *(b"%d" % number for number in range(8)))
    status = await triggered.drained()
    good = [
        record["offset"]
        for event in triggered.events
        if b"5" not in [base64.b64decode(record["value"]) for record in event["records"]["orders-0"]]
        for record in event["records"]["orders-0"]
    ]
    assert good == [0, 1, 2, 3, 4, 6, 7]
    [kept] = await read_all(triggered.service.engine, "failed", 0)
    assert kept.value == b"5"
    headers = dict(kept.headers)
    assert headers["odradek.trigger.error"] == b"ValueError: five is bad"
    assert headers["odradek.trigger.offset"] == b"5"
    assert status.partitions[0].given_up == 1
    assert "five is bad" in status.last_error


async def test_a_partial_response_repeats_from_the_first_failure_on(triggered: Triggered) -> None:
    await triggered.topic("orders")
    await triggered.create(starting_position="TRIM_HORIZON")
    answers = [{"batchItemFailures": [{"itemIdentifier": {"partition": "orders-0", "offset": 2}}]}]
    triggered.answer = lambda event: answers.pop() if answers else None
    await triggered.send("orders", b"0", b"1", b"2", b"3")
    await triggered.drained()
    assert triggered.offsets() == {"orders-0": [0, 1, 2, 3, 2, 3]}


async def test_filters_let_through_what_matches(triggered: Triggered) -> None:
    await triggered.topic("orders")
    await triggered.create(filters=('{"value": {"city": ["Prague", {"prefix": "Bra"}]}}',))
    for city in (b"Prague", b"Vienna", b"Bratislava"):
        await triggered.send("orders", b'{"city": "%s"}' % city)
    status = await triggered.drained()
    assert triggered.offsets() == {"orders-0": [0, 2]}
    assert status.partitions[0].passed == 1


async def test_a_paused_trigger_waits_and_a_resumed_one_goes_on(triggered: Triggered) -> None:
    await triggered.topic("orders")
    await triggered.create()
    await triggered.service.triggers.pause("orders-trigger")
    await triggered.send("orders", b"0", b"1")
    await triggered.service.engine.clock.sleep(0.05)
    assert triggered.events == []
    await triggered.service.triggers.resume("orders-trigger")
    await triggered.drained()
    assert triggered.offsets() == {"orders-0": [0, 1]}


async def test_a_paused_trigger_can_be_reset_and_an_enabled_one_cannot(triggered: Triggered) -> None:
    await triggered.topic("orders")
    await triggered.create(starting_position="TRIM_HORIZON")
    await triggered.send("orders", b"0", b"1")
    await triggered.drained()
    triggers = triggered.service.triggers
    with pytest.raises(KafkaError, match="pause it"):
        await triggers.reset("orders-trigger", "TRIM_HORIZON")
    await triggers.pause("orders-trigger")
    assert await triggers.reset("orders-trigger", "TRIM_HORIZON") == {0: 0}
    await triggers.resume("orders-trigger")
    await triggered.drained()
    assert triggered.offsets() == {"orders-0": [0, 1, 0, 1]}


async def test_a_deleted_trigger_calls_nothing_and_its_group_is_gone(triggered: Triggered) -> None:
    await triggered.topic("orders")
    await triggered.create()
    await triggered.drained()
    await triggered.service.triggers.delete("orders-trigger")
    await triggered.send("orders", b"0")
    await triggered.service.engine.clock.sleep(0.05)
    assert triggered.events == []
    assert await triggered.service.triggers.list_all() == []
    with pytest.raises(KafkaError) as raised:
        await triggered.service.triggers.describe("orders-trigger")
    assert raised.value.code is ErrorCode.RESOURCE_NOT_FOUND


async def test_a_service_that_starts_again_calls_with_what_it_had_not_called_with(triggered: Triggered) -> None:
    await triggered.topic("orders")
    await triggered.create()
    triggered.answer = lambda event: (_ for _ in ()).throw(RuntimeError("not yet"))
    await triggered.send("orders", b"0")
    await triggered.until(lambda: bool(triggered.events))
    triggered.answer = lambda event: None
    triggered.events.clear()
    await triggered.restart()
    await triggered.drained()
    assert triggered.offsets() == {"orders-0": [0]}


async def test_records_of_a_key_stay_in_order_with_a_parallelization_factor(triggered: Triggered) -> None:
    await triggered.topic("orders")
    await triggered.create(parallelization_factor=4, batch_size=2, starting_position="TRIM_HORIZON")
    for number in range(40):
        await triggered.send("orders", b"%d" % number, key=b"key-%d" % (number % 7))
    await triggered.drained()
    by_key: dict[str, list[int]] = {}
    for event in triggered.events:
        for record in event["records"]["orders-0"]:
            by_key.setdefault(record["key"], []).append(record["offset"])
    assert sum(map(len, by_key.values())) == 40
    assert all(offsets == sorted(offsets) for offsets in by_key.values())


async def test_partitions_that_are_added_later_are_read_from_their_start(triggered: Triggered) -> None:
    await triggered.topic("orders")
    await triggered.create()
    await triggered.drained()
    await triggered.service.engine.topics.create_partitions("orders", 2)
    await triggered.send("orders", b"0", partition=1)
    await triggered.service._triggers.sweep.run()
    await triggered.drained()
    assert triggered.offsets() == {"orders-1": [0]}


async def test_a_topic_that_is_created_again_is_read_from_its_start(triggered: Triggered) -> None:
    await triggered.topic("orders")
    await triggered.create()
    await triggered.drained()
    await triggered.service.engine.topics.delete("orders")
    assert not (await triggered.service.triggers.describe("orders-trigger")).topic_exists
    await triggered.topic("orders")
    await triggered.send("orders", b"0")
    await triggered.service._triggers.sweep.run()
    await triggered.drained()
    assert triggered.offsets() == {"orders-0": [0]}


async def test_a_tumbling_window_hands_its_state_on_and_ends_with_a_last_call(triggered: Triggered) -> None:
    await triggered.topic("orders")
    await triggered.create(tumbling_window_s=60, batch_size=2, starting_position="TRIM_HORIZON")

    def answer(event: dict[str, Any]) -> Any:
        count = event["state"].get("count", 0) + len(event["records"]["orders-0"])
        return {"state": {"count": count}}

    triggered.answer = answer
    await triggered.send("orders", *(b"%d" % number for number in range(5)))  # long ago: the window is over
    await triggered.until(lambda: bool(triggered.events) and triggered.events[-1]["isFinalInvokeForWindow"])
    assert [event["isFinalInvokeForWindow"] for event in triggered.events] == [False, False, False, True]
    last = triggered.events[-1]
    assert last["state"] == {"count": 5}
    assert last["window"] == {"start": "2023-11-14T22:13:00Z", "end": "2023-11-14T22:14:00Z"}
    assert last["shardId"] == "orders-0"


async def test_a_batching_window_waits_for_a_full_batch_no_longer_than_it_says(triggered: Triggered) -> None:
    await triggered.topic("orders")
    await triggered.create(batching_window_s=1, batch_size=3)
    await triggered.drained()
    await triggered.send("orders", b"0")
    await triggered.send("orders", b"1")
    await triggered.until(lambda: bool(triggered.events))
    assert triggered.offsets() == {"orders-0": [0, 1]}
    assert len(triggered.events) == 1


async def test_retention_that_overtakes_a_trigger_does_not_stop_it(triggered: Triggered) -> None:
    await triggered.topic("orders")
    await triggered.create(starting_position="TRIM_HORIZON")
    await triggered.service.triggers.pause("orders-trigger")
    await triggered.send("orders", *(b"%d" % number for number in range(5)))
    from odradek.model.log import DeleteRecordsPartition

    await triggered.service.engine.delete_records([DeleteRecordsPartition("orders", 0, 3)])
    await triggered.service.triggers.resume("orders-trigger")
    await triggered.drained()
    assert triggered.offsets() == {"orders-0": [3, 4]}
