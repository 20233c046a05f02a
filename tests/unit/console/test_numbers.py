"""Rates between two looks at /metrics, buckets of requests, and how numbers are shown."""

from __future__ import annotations

import pytest
from odradek.console.guard import is_same_site
from odradek.console.rates import RateLimit
from odradek.console.rendering import duration, in_words, moment, number, preview, size, time_text, url
from odradek.functions.metrics import Metrics
from odradek.functions.telemetry import Invocation
from odradek.operations.metrics import Look, parse_numbers, rates
from odradek.ports.meter import Usage
from odradek.testing.manual_clock import ManualClock


def test_what_the_service_writes_is_read_back() -> None:
    metrics = Metrics(lambda: Usage(object_put_requests=3, function_requests=7))
    metrics.observe(Invocation("", "produce", "", api="PRODUCE", bytes_in=100, bytes_out=10))
    metrics.observe(Invocation("", "fetch", "", api="FETCH", bytes_in=5, bytes_out=1000, error='odd "name"\n'))

    found = parse_numbers(metrics.text())

    assert found.requests == {"PRODUCE": 1, "FETCH": 1}
    assert (found.bytes_in, found.bytes_out) == (105, 1010)
    assert (found.usage.object_put_requests, found.usage.function_requests) == (3, 7)
    assert len(found.errors) == 1


def test_rates_are_differences_and_a_restart_has_none() -> None:
    metrics = Metrics(lambda: Usage())
    before = Look(0, 100, {"a": 60, "b": 40}, parse_numbers(metrics.text()))
    metrics.observe(Invocation("", "produce", "", api="PRODUCE", bytes_in=400, bytes_out=20))
    after = Look(2_000, 130, {"a": 80, "b": 30, "new": 20}, parse_numbers(metrics.text()))

    found = rates(before, after)

    assert found.by_topic == {"a": 10, "b": 0}, "a topic that was recreated or is new has no rate"
    assert (found.requests, found.bytes_in, found.bytes_out, found.dollars_hour) == (0.5, 200, 10, 0)
    assert rates(after, Look(4_000, 0, {}, before.numbers)).requests is None
    assert rates(Look(0, 0, {}), Look(1, 0, {})).bytes_in is None


def test_a_bucket_refills() -> None:
    clock = ManualClock()
    limit = RateLimit(2.0, 3.0, clock)
    assert [limit.allows("a") for _ in range(5)] == [True, True, True, False, False]
    assert limit.allows("b"), "each caller has a bucket"
    clock.advance(1)
    assert [limit.allows("a") for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (number(None), "–"),
        (number(1234567), "1,234,567"),
        (number(0.5), "0.5"),
        (size(None), "–"),
        (size(0), "0 B"),
        (size(1536), "1.5 KiB"),
        (size(2**40), "1.0 TiB"),
        (duration(None), "–"),
        (duration(90_061_000), "1 d 1 h"),
        (duration(5), "5 ms"),
        (time_text(0), "1970-01-01 00:00:00.000"),
        (time_text(2**62), str(2**62)),
        (time_text(-1), "1969-12-31 23:59:59.999"),
        (preview("a\n  b"), "a b"),
        (str(moment(None)), "–"),
        (str(moment(0, "UTC")), '<time data-ms="0">1970-01-01 00:00:00.000 UTC</time>'),
        (in_words("retention.ms", "604800000"), "7 d"),
        (in_words("retention.ms", "-1"), "unlimited"),
        (in_words("local.retention.ms", "-2"), ""),
        (in_words("flush.ms", "9223372036854775807"), "no limit"),
        (in_words("segment.bytes", "1073741824"), "1.0 GiB"),
        (in_words("min.insync.replicas", "1"), ""),
        (in_words("cleanup.policy", "delete"), ""),
        (in_words("cleanup.policy", None), ""),
        (url("/a", b="c d&", e="", f=None, g=0), "/a?b=c+d%26&g=0"),
    ],
)
def test_how_it_is_shown(shown: str, text: str) -> None:
    assert shown == text


def test_a_long_text_is_cut() -> None:
    assert len(preview("x" * 10_000)) == 241


@pytest.mark.parametrize("path", ["//evil", "/\\evil", "http://evil", "evil", "", "javascript:x", "\\\\evil"])
def test_only_a_path_of_this_console_is_led_back_to(path: str) -> None:
    assert not is_same_site(path)
    assert is_same_site("/topics?a=//b")
