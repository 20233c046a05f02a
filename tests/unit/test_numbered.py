"""The judge of numbered records sees each thing that can go wrong, and no other."""

from __future__ import annotations

import pytest

from tests.support.clients.numbered import Numbered, Sent, judge


def sent(**counts: int) -> Sent:
    sent_records = Sent()
    for producer, count in counts.items():
        for _ in range(count):
            sent_records.next(producer, 0)
    return sent_records


def log(text: str) -> dict[int, list[bytes]]:
    """ "a0 a1" -> records 0 and 1 of producer a in partition 0."""
    return {0: [Numbered(word[0], 0, int(word[1:])).value(20) for word in text.split()]}


def test_a_value_names_its_record() -> None:
    record = Numbered("p", 3, 17)
    assert record.value(40).startswith(b"p:3:17:")
    assert len(record.value(40)) == 40
    assert Numbered.of(record.value(40)) == Numbered.of(record.value()) == record


def test_two_producers_in_order_are_exact() -> None:
    assert judge(sent(a=2, b=2), log("a0 b0 b1 a1")).is_exact


@pytest.mark.parametrize(
    ("log_text", "harm", "records"),
    [
        ("a0 a2", "lost", ["a1"]),
        ("a0 a1 a1 a2", "doubled", ["a1"]),
        ("a0 a1 a2 a0", "doubled", ["a0"]),
        ("a0 a2 a1", "disordered", ["a1"]),
        ("a0 a1 a2 a3", "misplaced", ["a3"]),
        ("a0 a1 a2 b0", "misplaced", ["b0"]),
    ],
)
def test_each_kind_of_harm(log_text: str, harm: str, records: list[str]) -> None:
    findings = judge(sent(a=3), log(log_text))
    assert not findings.is_exact
    for name in ("lost", "doubled", "disordered", "misplaced"):
        harmed = [Numbered.of(r) if isinstance(r, bytes) else r for r in getattr(findings, name)]
        assert [f"{record.producer}{record.sequence}" for record in harmed] == (records if name == harm else []), name
    assert f"{harm} {len(records)}" in str(findings)


def test_what_was_refused_may_be_there_or_not() -> None:
    sent_records = sent(a=3)
    sent_records.refuse(Numbered("a", 0, 1), "timed out")
    for log_text in ("a0 a2", "a0 a1 a2"):
        findings = judge(sent_records, log(log_text))
        assert findings.is_exact
        assert (findings.sent, findings.acknowledged) == (3, 2)


def test_a_dead_producer_is_no_success() -> None:
    sent_records = sent(a=1)
    sent_records.fatal.append("fenced")
    assert not judge(sent_records, log("a0")).is_exact


def test_of_a_recreated_topic_the_rest_must_be_whole() -> None:
    assert not judge(sent(a=4), log("a2 a3")).is_exact
    assert judge(sent(a=4), log("a2 a3"), recreated=True).is_exact
    assert judge(sent(a=4), log("a1 a3"), recreated=True).lost == [Numbered("a", 0, 2)]


def test_values_of_other_programs() -> None:
    assert judge(sent(a=1), {0: [b"a:0:0:", b"", b"a:x:1:"]}).misplaced == [b"", b"a:x:1:"]
    assert judge(sent(a=1), {1: [b"a:0:0:"]}).misplaced == [b"a:0:0:"]
