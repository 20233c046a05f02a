"""The line a minute that CloudWatch makes metrics of."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import pytest
from odradek.gateway.cloudwatch import SAMPLES_MAX, KafkaTelemetry
from odradek.ports.meter import Usage
from odradek.testing.manual_clock import ManualClock


class World:
    def __init__(self) -> None:
        self.usage = Usage(table_write_units=5)
        self.lines: list[dict[str, Any]] = []
        self.telemetry = KafkaTelemetry(
            "c",
            clock=ManualClock(),
            billed=lambda: self.usage,
            write_line=lambda line: self.lines.append(json.loads(line)),
        )


def test_a_line_tells_of_its_own_minute() -> None:
    world = World()
    world.telemetry.observe(4.25, 100, 10)
    world.telemetry.observe(6.0, 50, 5)
    world.usage += Usage(table_write_units=3, object_put_requests=1)
    world.telemetry.write(2)
    world.telemetry.write(1)
    first, second = world.lines
    assert (first["requests"], first["bytes_in"], first["bytes_out"], first["connections"]) == (2, 150, 15, 2)
    assert (first["duration_ms"], first["table_write_units"], first["object_put_requests"]) == ([4.25, 6.0], 3, 1)
    assert (second["requests"], second["table_write_units"], second["connections"]) == (0, 0, 1)
    # CloudWatch refuses a metric without a value: no request, no duration.
    assert "duration_ms" not in second
    assert "duration_ms" not in [metric["Name"] for metric in second["_aws"]["CloudWatchMetrics"][0]["Metrics"]]


@pytest.mark.parametrize("requests", [1, 100, 101, 250, 10_000])
def test_durations_are_sampled_over_the_whole_minute(requests: int) -> None:
    world = World()
    for number in range(requests):
        world.telemetry.observe(float(number), 1, 1)
    world.telemetry.write(0)
    [line] = world.lines
    kept = line["duration_ms"]
    assert line["requests"] == requests
    assert min(requests, SAMPLES_MAX // 2) <= len(kept) <= SAMPLES_MAX
    steps = {later - earlier for earlier, later in itertools.pairwise(kept)}
    assert len(steps) <= 1, "every n-th request, so early and late ones count alike"
    assert kept[-1] >= requests - 1 - (requests / SAMPLES_MAX) * 2


def test_each_number_of_a_line_is_declared_as_a_metric_with_its_dimensions() -> None:
    world = World()
    world.telemetry.observe(4.25, 100, 10)
    world.telemetry.write(2)
    [line] = world.lines
    [directive] = line["_aws"]["CloudWatchMetrics"]
    numbers = {name for name, value in line.items() if isinstance(value, int | float | list)}
    assert {metric["Name"] for metric in directive["Metrics"]} == numbers
    assert all(isinstance(line[name], str) for name in directive["Dimensions"][0])


async def test_a_line_is_written_every_minute() -> None:
    world = World()
    clock = ManualClock(auto_advance=True)
    telemetry = KafkaTelemetry(
        "c", clock=clock, billed=Usage, write_line=lambda line: world.lines.append(json.loads(line))
    )
    running = asyncio.ensure_future(telemetry.run(lambda: len(world.lines)))
    while len(world.lines) < 3:
        await asyncio.sleep(0)
    running.cancel()
    times = [line["_aws"]["Timestamp"] for line in world.lines]
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [60_000, 60_000]
    assert [line["connections"] for line in world.lines] == [0, 1, 2], "as they are when the line is written"


def test_what_a_person_has_to_look_at_is_an_attention_line() -> None:
    world = World()
    world.usage += Usage(damaged_ranges=2, rejected_requests=1)
    world.telemetry.write(1)
    world.telemetry.write(1)
    lines = [line for line in world.lines if line["message"] == "attention"]
    assert [(line["reason"], line["function"], line["attention"]) for line in lines] == [
        ("damage", "kafka", 1),
        ("store-rejected", "kafka", 1),
    ]
