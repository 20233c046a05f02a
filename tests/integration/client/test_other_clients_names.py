"""Names of kafka-python, confluent-kafka and aiokafka: they work, or the error says what to write."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import odradek.aio
import pytest
from odradek.errors import ErrorCode, KafkaError

PAGE = (Path(__file__).parents[3] / "docs" / "from-kafka-clients.md").read_text()


@pytest.fixture(scope="module")
def config() -> Iterator[dict[str, str]]:
    with odradek.local() as service:  # type: ignore[operator]
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics(["t"])
        yield service.client_config


class Outcome:
    """Arguments of the callbacks."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.came = threading.Event()

    def __call__(self, *arguments: Any) -> None:
        self.calls.append(arguments)
        self.came.set()

    def first(self) -> tuple[Any, ...]:
        assert self.came.wait(60)
        return self.calls[0]


def test_a_delivery_is_told_by_callbacks(config: dict[str, str]) -> None:
    delivered, written, failed = Outcome(), Outcome(), Outcome()
    with odradek.Producer({"linger.ms": 0, **config}) as producer:
        future = producer.send("t", b"1", on_delivery=delivered)
        future.add_callback(written, "argument").add_errback(failed)
        assert future.get(timeout=60) == delivered.first()[1]
        assert delivered.first()[0] is None
        assert written.first() == ("argument", future.result())
    assert failed.calls == []


def test_a_failure_is_told_by_callbacks(config: dict[str, str]) -> None:
    delivered, written, failed = Outcome(), Outcome(), Outcome()
    with odradek.Producer(**config) as producer:
        producer.send("t", b"0").result()
        future = producer.send("t", b"1", partition=0, expected_offset=99, on_delivery=delivered)
        future.add_callback(written).add_errback(failed)
        error, metadata = delivered.first()
        assert isinstance(error, KafkaError)
        assert metadata is None
        assert isinstance(failed.first()[0], odradek.OffsetConflict)
        producer.flush()  # somebody has looked at the failure
    assert written.calls == []


async def test_the_asynchronous_producer_tells_it_too(config: dict[str, str]) -> None:
    delivered = Outcome()
    async with odradek.aio.Producer(**config) as producer:
        metadata = await (await producer.send("t", b"1", on_delivery=delivered))
    assert delivered.first() == (None, metadata)


def test_records_are_consumed_as_one_list(config: dict[str, str]) -> None:
    with odradek.Admin(**config) as admin:
        admin.create_topics([odradek.NewTopic("listed", 2)])
    with odradek.Producer(**config) as producer:
        for number in range(10):
            producer.send("listed", b"%d" % number)
    with odradek.Consumer(**config, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["listed"])
        first = consumer.consume(3)
        assert 1 <= len(first) <= 3
        records = list(first)
        while len(records) < 10:
            records += consumer.consume(100, timeout=5.0)
        assert sorted(int(record.value or b"") for record in records) == list(range(10))
        assert consumer.consume(5, timeout=0) == []


def test_a_name_of_another_client_says_what_to_call(config: dict[str, str]) -> None:
    with odradek.Producer(**config) as producer:
        with pytest.raises(AttributeError, match=r"Producer has no 'produce': use send\(topic, value, key\)"):
            producer.produce("t", b"1")
        with pytest.raises(AttributeError, match=r"^Producer has no 'bogus'$"):
            _ = producer.bogus
        assert not hasattr(producer, "poll")
    with odradek.Consumer(**config) as consumer, pytest.raises(AttributeError, match="use poll"):
        consumer.getmany(timeout_ms=10)


def test_a_topic_that_does_not_exist_is_an_error_at_once(config: dict[str, str]) -> None:
    with odradek.Producer(**config) as producer, pytest.raises(KafkaError) as caught:
        producer.send("nowhere", b"1")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_page_names_methods_that_there_are() -> None:
    named = set(re.findall(r"`(Producer|Consumer|Admin|RecordFuture)\.(\w+)", PAGE))
    assert len(named) > 25
    assert [f"{owner}.{name}" for owner, name in named if not hasattr(getattr(odradek, owner), name)] == []


@pytest.mark.parametrize("client", [odradek.Producer, odradek.Consumer])
def test_a_hint_is_not_about_a_method_that_there_is(client: Any) -> None:
    assert [name for name in client._other_names if hasattr(client, name)] == []
