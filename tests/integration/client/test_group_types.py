"""The type of a group, wherever it is shown."""

from __future__ import annotations

import pytest
from odradek import NewTopic, OffsetAndMetadata, TopicPartition
from odradek.aio import Admin, Consumer
from odradek.operations.groups import describe_all, describe_group, list_groups

from tests.support.clients.in_process import Server


@pytest.mark.parametrize("commits", ["offsets alone", "consumer"])
async def test_list_and_description_name_the_same_type(commits: str) -> None:
    """A group of which only offsets were set is classic, as on Apache Kafka: no protocol has used it."""
    server = Server()
    async with Admin(transport=server.transport()) as admin:
        await admin.create_topics([NewTopic("flights", 1)])
        if commits == "offsets alone":
            await admin.alter_consumer_group_offsets("g", {TopicPartition("flights", 0): OffsetAndMetadata(0)})
        else:
            async with Consumer(transport=server.transport(), group_id="g") as consumer:
                consumer.subscribe(["flights"])
                while not consumer.assignment():
                    await consumer.poll(100)
        [row] = await list_groups(admin)
        detail = await describe_group(admin, "g")
        assert row.type == detail.protocol == ("consumer" if commits == "consumer" else "classic")
        assert [description.protocol for description in await describe_all(admin)] == [row.type]
