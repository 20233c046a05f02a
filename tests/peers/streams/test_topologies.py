"""Stream SQL beside Kafka Streams 4.1, by its TopologyTestDriver: one record a micro-batch, and many in one.

Compared are keys, values, times, headers and tombstones: of one record a micro-batch all that is written for a key, of
many what a stream has, and the last record of a table's key. What differs must be what differences.toml says, to the
letter; ODRADEK_KEEP_ANSWERS=1 writes what a run found of the topologies in that file, and the others, under no reason,
to build/peers/unexplained_topologies.toml. `make reference` makes the table in docs/SQL.md from the reasons.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conformance.sql.streamed import Row, Sent, rows_of
from tests.peers import accepted
from tests.peers.accepted import Shown
from tests.peers.streams import kafka_streams
from tests.peers.streams.topologies import TOPOLOGIES, in_one_batch, script, variants
from tests.support.spark.session import spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark"]

DIFFERENCES = Path(__file__).parent / "differences.toml"
UNEXPLAINED = Path(__file__).parents[3] / "build" / "peers" / "unexplained_topologies.toml"
MODES = ("one by one", "many")
MINIMUM = 60
KEEPS = bool(os.environ.get("ODRADEK_KEEP_ANSWERS"))
COMPARED = {
    *("filter", "projection", "partition by", "partition by null", "explode", "count", "count by text", "count by two"),
    *("count where", "count having", "sum having", "sum", "bounds", "list", "latest", "earliest", "tumbling count"),
    *("tumbling count, grace", "tumbling count, a day", "tumbling list, grace", "tumbling sum where"),
    *(
        "tumbling count by text",
        "tumbling count having",
        "hopping count",
        "hopping count, grace",
        "hopping list, grace",
    ),
    *("session count, grace", "tumbling count final, grace", "tumbling count suppressed", "insert into", "full join"),
    *("inner join with grace", "left join with grace", "stream left join table", "stream join versions"),
}
"""The differences of the others, which are asked with ODRADEK_KEEP_ANSWERS=1, are not under reasons yet."""

pytestmark = pytest.mark.peers


def question(topology: str, mode: str) -> str:
    return f"{topology}, {mode}"


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[Row]]:
    """Return the records of Kafka Streams by question."""
    asked: list[tuple[str, str, list[Sent]]] = []
    for topology in TOPOLOGIES:
        for sent in variants(topology):
            asked += [(topology, mode, sent if mode == MODES[0] else in_one_batch(sent)) for mode in MODES]
    class_path = kafka_streams.compiled(tmp_path_factory.mktemp("kafka-streams"))
    found: dict[str, list[Row]] = {}
    answers = kafka_streams.answers(class_path, [(topology, sent) for topology, _, sent in asked])
    for (topology, mode, _), rows in zip(asked, answers, strict=True):
        found.setdefault(question(topology, mode), []).extend(rows)
    return found


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, Shown]]:
    """The differences by question, which are written in the end where that is wanted."""
    questions: dict[str, Shown] = {}
    yield questions
    if KEEPS:
        known = accepted.load(DIFFERENCES)
        named = {name for each in known for name in each.probes}
        DIFFERENCES.write_text(accepted.renewed(known, questions, head=_HEAD))
        UNEXPLAINED.parent.mkdir(parents=True, exist_ok=True)
        new = [(name, places) for name, places in questions.items() if places and name not in named]
        UNEXPLAINED.write_text(accepted.to_toml(new))


_HEAD = """\
# Differences of stream SQL from Kafka Streams that are wanted, and their reasons: see test_topologies.py. A place is a
# row's key; then what Kafka Streams writes, and ours: value @ milliseconds < the header of the record it comes from.
"""


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_rows_are_kafka_streams_s(
    spark: SparkSession, theirs: Mapping[str, list[Row]], found: dict[str, Shown], topology: str
) -> None:
    if topology not in COMPARED and not KEEPS:
        pytest.skip("its differences are not under reasons yet: see COMPARED")
    wanted = {name: dict(places) for each in accepted.load(DIFFERENCES) for name, places in each.probes.items()}
    other = {}
    for mode in MODES:
        ours = rows_of(spark, script(topology), variants(topology), one_by_one=mode == MODES[0])
        name = question(topology, mode)
        places = differences(topology, theirs[name], ours, is_last=mode != MODES[0])
        found[name] = accepted.shown(places)
        if found[name] != wanted.get(name, {}):
            other[name] = found[name]
    assert other == {}


def test_there_are_enough() -> None:
    assert len(TOPOLOGIES) >= MINIMUM


def differences(topology: str, theirs: list[Row], ours: list[Row], *, is_last: bool) -> dict[str, tuple[str, str]]:
    """Return what differs, by key.

    Args:
        is_last: of a table the last record of a key counts; a row that came and went may have left none.
    """
    is_last = is_last and "CREATE TABLE r" in TOPOLOGIES[topology]
    one, other = (_by_key(rows, is_last=is_last) for rows in (theirs, ours))
    if is_last:
        other |= {key: text for key, text in one.items() if key not in other and text.startswith("- @")}
    keys = sorted(one.keys() | other.keys())
    return {key: (one.get(key, ""), other.get(key, "")) for key in keys if one.get(key) != other.get(key)}


def _by_key(rows: Iterable[Row], *, is_last: bool) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for key, value, ms, source in rows:
        shown = f"{'-' if value is None else value} @ {ms} < {source or '-'}"
        variant = (source or "").rpartition(" ")[0]
        found.setdefault(f"null, {variant}" if key is None else _shown_key(key), []).append(shown)
    return {key: "; ".join(texts[-1:] if is_last else texts) for key, texts in found.items()}


def _shown_key(key: bytes) -> str:
    """Return a key; of a window, with its bounds in milliseconds."""
    bounds = []
    while len(key) > 8 and key[-8:-5] == b"\0\0\0":
        bounds.append(str(int.from_bytes(key[-8:], "big")))
        key = key[:-8]
    return " ".join([key.decode(), "-".join(bounds)]).strip()
