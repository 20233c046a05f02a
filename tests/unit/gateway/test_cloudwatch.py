"""The line a minute that CloudWatch makes metrics of."""

from __future__ import annotations

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
    assert "duration_ms" not in [each["Name"] for each in second["_aws"]["CloudWatchMetrics"][0]["Metrics"]]


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
