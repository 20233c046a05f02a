"""Share groups and the schema registry of each release's golden store, read and gone on with by this code."""

from __future__ import annotations

import pytest
from odradek.errors import ErrorCode
from odradek.model.topic_partition import PartitionId, TopicPartition
from odradek.registry.compatibility import Level
from odradek.registry.errors import RegistryError
from odradek.registry.schemas import Reference, Schema

from tests.golden.release import registered
from tests.support.clients.share_member import ACCEPT, ShareMember, ack
from tests.support.engine import read_all
from tests.support.stores.releases import ALL, Stored, open_release

LOCK_S = 30.0


async def member(stored: Stored, name: str) -> tuple[ShareMember, PartitionId]:
    """A member that the release's share group knows, or a new one, and the partition of the queue."""
    engine = stored.engine()
    made = ShareMember(engine, name, "work", group_id="queue")
    made.epoch, made.session_epoch = stored.expected["queue"].get(name, (0, 0))
    assert (await made.beat()).error is ErrorCode.NONE
    partition = PartitionId((await engine.topics.resolve("work")).topic_id, 0)
    return made, partition


@pytest.mark.parametrize("release", ALL)
async def test_a_share_group_goes_on_where_it_stood(release: str) -> None:
    stored = await open_release(release)
    holder, partition = await member(stored, "holder")
    [stands] = await holder.engine.share_offsets.describe("queue", [TopicPartition("work", 0)])
    assert (stands.start_offset, stands.lag) == (2, 5)  # 0, 1 and 3 are done
    new, _ = await member(stored, "new")
    got = await new.fetch()
    assert [(offset, count) for offset, count, _ in got] == [(5, 2), (6, 1), (7, 1)], "2 is dying, 4 has a holder"
    assert await holder.acknowledge({partition: [ack(4, 4, ACCEPT)]}) == {partition: ErrorCode.NONE}
    assert await new.acknowledge({partition: [ack(5, 7, ACCEPT)]}) == {partition: ErrorCode.NONE}
    await new.engine.topics.create("later-letters", 1)
    assert await new.fetch() == []
    [stands] = await holder.engine.share_offsets.describe("queue", [TopicPartition("work", 0)])
    assert (stands.start_offset, stands.lag) == (8, 0)
    letters = {topic: await read_all(new.engine, topic, 0) for topic in ("letters", "later-letters")}
    assert {topic: [record.value for record in records] for topic, records in letters.items()} == {
        "letters": [b"job 1"],
        "later-letters": [b"job 2"],
    }


@pytest.mark.parametrize("release", ALL)
async def test_locks_of_a_release_run_out(release: str) -> None:
    stored = await open_release(release)
    stored.clock.advance(LOCK_S + 1)
    new, partition = await member(stored, "new")
    assert (4, 2) in [(offset, count) for offset, count, _ in await new.fetch()]
    holder, _ = await member(stored, "holder")
    assert await holder.acknowledge({partition: [ack(4, 4, ACCEPT)]}) == {partition: ErrorCode.INVALID_RECORD_STATE}


@pytest.mark.parametrize("release", ALL)
async def test_schemas_are_found_by_subject_and_by_id(release: str) -> None:
    stored = await open_release(release)
    registry, schemas_expected = stored.schemas, stored.expected["schemas"]
    assert [registered(version) for version in await registry.schemas()] == schemas_expected["live"]
    assert [registered(version) for version in await registry.schemas(deleted=True)] == schemas_expected["all"]
    for subject, version, schema_id, schema_type, text, references in schemas_expected["all"]:
        stored_schema = await registry.schema(schema_id)
        assert (stored_schema.schema.kind, stored_schema.schema.text) == (schema_type, text)
        assert (await registry.schema_by_guid(stored_schema.guid)).schema_id == schema_id
        schema = Schema(schema_type, text, tuple(Reference(*reference) for reference in references))
        assert (await registry.lookup(subject, schema, deleted=True)).version == version
    gone_id, gone_text = schemas_expected["gone"]  # no subject has it, but records in the log may name it
    assert (await registry.schema(gone_id)).schema.text == gone_text
    assert await registry.names() == ["open-value", "other-value", "plain-value", "quantity", "unit"]
    assert await registry.versions("plain-value") == [2]
    assert await registry.versions("hidden", deleted=True) == [1]


@pytest.mark.parametrize("release", ALL)
async def test_the_registry_goes_on_where_it_was(release: str) -> None:
    stored = await open_release(release)
    registry, schemas_expected = stored.schemas, stored.expected["schemas"]
    assert (await registry.effective("plain-value")).level is Level.FULL
    chosen = await registry.effective("open-value")
    assert (chosen.level, chosen.normalize) == (Level.NONE, True)
    for refused in (
        registry.register("plain-value", Schema("AVRO", '"string"')),  # incompatible
        registry.register("unit", Schema("AVRO", '"string"')),  # read-only
        registry.delete_version("quantity", 2),  # there is none
    ):
        with pytest.raises(RegistryError):
            await refused
    assert await registry.referenced_by("unit", 1) == [(await registry.version("quantity", 1)).stored.schema_id]
    made = await registry.register("open-value", Schema("AVRO", '"bytes"'))
    assert made.version == 3
    assert made.stored.schema_id == 1 + max(
        schemas_expected["gone"][0], *(version[2] for version in schemas_expected["all"])
    )
    again = await registry.register("gone", Schema("AVRO", schemas_expected["gone"][1]))
    assert again.stored.schema_id == schemas_expected["gone"][0]
