"""Pages of the console that read the store itself, and its handling of dead letters."""

from __future__ import annotations

import asyncio
from typing import Any

import odradek
import pytest
from odradek.errors import ErrorCode, KafkaError
from odradek.local.threaded import ThreadedService
from odradek.operations.cluster import Cluster
from odradek.operations.groups import describe_group
from odradek.operations.redrive import dead_letters, redrive, redrive_group
from odradek.operations.skew import key_skew
from odradek.operations.storage import StorePlace

from tests.integration.console.conftest import Browser, browsing


def cluster_of(service: ThreadedService) -> Cluster:
    return Cluster(service.client_config, StorePlace.of_folder(service.data_dir))


async def test_the_pieces_of_a_partition_cover_its_offsets_without_gap(service: ThreadedService) -> None:
    async with cluster_of(service) as cluster, cluster.open_store() as store:
        for number in range(3):
            stored = await store.segments("orders", number)
            at = stored.log_start_offset
            for piece in stored.pieces:
                assert piece.base_offset == at
                assert piece.size_bytes > 0
                at = piece.end_offset
            assert at == stored.next_offset > 0


async def test_a_partition_that_is_not_there_is_named(service: ThreadedService) -> None:
    async with cluster_of(service) as cluster, cluster.open_store() as store:
        for topic, number in (("orders", 3), ("nowhere", 0)):
            with pytest.raises(KafkaError, match=f"{topic}-{number}"):
                await store.segments(topic, number)


async def test_without_the_store_the_page_says_what_to_do(service: ThreadedService) -> None:
    async with browsing(service.client_config) as browser:
        assert "--data-dir" in await browser.get("/topics/orders?tab=storage")
        assert "--data-dir" in await browser.get("/groups/detail?id=mails&tab=flight")


async def test_records_in_flight_are_those_a_member_holds(service: ThreadedService) -> None:
    async with cluster_of(service) as cluster, cluster.open_store() as store:
        runs = await store.in_flight("mails")
        members = {member.member for member in (await describe_group(cluster.admin, "mails")).members}
    acquired = [run for run in runs if run.state == "acquired"]
    assert sum(run.end_offset - run.first_offset for run in acquired) == 5
    assert {run.member for run in acquired} <= members
    assert all(run.deliveries == 1 and run.lock_until_ms for run in acquired)


async def test_a_key_that_stands_in_two_partitions_is_named(service: ThreadedService) -> None:
    async with cluster_of(service) as cluster:
        await cluster.admin.create_topics([odradek.NewTopic("skewed", 2)])
        async with cluster.producer() as producer:
            for number in range(40):
                await producer.send("skewed", b"v", b"torn", partition=number % 2)
            for _ in range(10):
                await producer.send("skewed", b"v", None, partition=0)
            await producer.flush()
        skew = await key_skew(cluster, "skewed", 1_000)
        with pytest.raises(KafkaError, match="sample"):
            await key_skew(cluster, "skewed", 0)
    assert [(moved_key.key, moved_key.records, moved_key.partitions) for moved_key in skew.moved] == [
        ("torn", 40, (0, 1))
    ]
    assert [partition.without_key for partition in skew.partitions] == [10, 0]
    assert skew.imbalance == pytest.approx(30 / 25)


@pytest.mark.parametrize("copies", [True, False])
async def test_dead_letters_go_back_once_and_whole(service: ThreadedService, copies: bool) -> None:
    group, jobs, dead = (f"{name}-{copies}" for name in ("workers", "jobs", "jobs-dead"))
    async with cluster_of(service) as cluster:
        await cluster.admin.create_topics([odradek.NewTopic(jobs, 1), odradek.NewTopic(dead, 1)])
        await cluster.admin.alter_topic_configs(dead, {"errors.deadletterqueue.group.enable": "true"})
        await cluster.admin.alter_group_configs(
            group,
            {
                "share.auto.offset.reset": "earliest",
                "errors.deadletterqueue.topic.name": dead,
                "errors.deadletterqueue.copy.record.enable": str(copies).lower(),
            },
        )
        async with cluster.producer() as producer:
            await producer.send_and_wait(jobs, b"work", key=b"k", headers=[("trace", b"7")])
        await asyncio.to_thread(_reject, service, group, jobs)
        [letter] = (await dead_letters(cluster, group)).letters
        assert (letter.topic, letter.from_partition, letter.from_offset) == (jobs, 0, 0)
        assert letter.has_record is copies

        done = await redrive(cluster, group)
        assert (done.sent, done.passed_over, done.left) == (1, 0, 0)
        again = await redrive(cluster, group)
        assert (again.sent, again.left) == (0, 0), "positions are kept"
        assert (await dead_letters(cluster, group)).letters == ()
        assert (await describe_group(cluster.admin, redrive_group(group))).lag == 0
        async with cluster.consumer() as consumer:
            record = await consumer.read_at(jobs, 0, 1)
        assert record is not None
        assert (record.key, record.value, list(record.headers)) == (b"k", b"work", [("trace", b"7")])


async def test_a_group_without_dead_letters_has_nothing_to_redrive(service: ThreadedService) -> None:
    async with cluster_of(service) as cluster:
        assert (await dead_letters(cluster, "billing")).topic == ""
        with pytest.raises(KafkaError) as refused:
            await redrive(cluster, "billing")
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def _reject(service: ThreadedService, group: str, topic: str) -> None:
    with odradek.ShareConsumer(
        **service.client_config, group_id=group, share_acknowledgement_mode="explicit"
    ) as consumer:
        consumer.subscribe([topic])
        polled: dict[Any, Any] = {}
        while not polled:
            polled = consumer.poll(2_000)
        for records in polled.values():
            for record in records:
                consumer.acknowledge(record, odradek.AcknowledgeType.REJECT)
        consumer.commit_sync()


async def test_letters_are_sent_back_from_the_page(browser: Browser) -> None:
    page = await browser.done("/groups/redrive", id="mails", limit="1")
    assert "1 records were sent back, 0 passed over, 2 are left" in page
    assert "redrive dead letters" in await browser.get("/audit")


async def test_the_lag_of_a_group_is_told_as_it_was_and_as_it_is(browser: Browser) -> None:
    from odradek.console.pages.groups import _lags

    browser.state.sampler.past.note_lag("billing", 1, 4_711)
    events = _lags(browser.state, "billing")
    assert await anext(events) == ("rates", {"lag": 4_711, "topics": []})
    _, now = await anext(events)
    assert now["lag"] == (await describe_group(browser.state.cluster.admin, "billing")).lag
    await events.aclose()
