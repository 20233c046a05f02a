"""Charts without Spark: the best of what was, and of what is played now."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.glue_jobs.top_charts.transform import latest_charts, updated

from tests.support.examples import examples


@settings(max_examples=examples(40))
@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=12), max_size=6), st.integers(1, 4))
def test_the_chart_is_that_of_all_plays(batches: list[list[str]], n: int) -> None:
    counts: Counter[str] = Counter()
    top: list[tuple[str, int]] = []
    for batch in batches:
        counts.update(batch)
        top = updated(top, {item: counts[item] for item in set(batch)}, n)
    assert top == sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:n]


def test_the_latest_value_of_a_key_is_the_chart() -> None:
    values = [
        b'{"chart": "all", "top": [{"item": "a", "plays": 1}]}',
        b'{"chart": "all", "top": [{"item": "b", "plays": 2}, {"item": "a", "plays": 1}]}',
    ]
    assert latest_charts(values) == {"all": [("b", 2), ("a", 1)]}
