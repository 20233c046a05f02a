"""The registry's procedures: ids, versions, deletion, references, modes; and each of them when the table fails."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from odradek.adapters.memory import MemoryStore
from odradek.format.item_keys import REGISTRY_SCHEMAS_PK
from odradek.limits import SCHEMA_BYTES_MAX
from odradek.registry.compatibility import Level
from odradek.registry.errors import RegistryError
from odradek.registry.schemas import Reference, Schema
from odradek.registry.subjects import Subjects
from odradek.testing.faults import Fault, Faulty
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng


class Yielding:
    """A table whose every call lets others go first, so that those who read and then write meet."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._table, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0)
            return await method(*args, **kwargs)

        return call


class World:
    def __init__(self) -> None:
        self.table: Any = Faulty(MemoryStore().catalog)
        self.clock = ManualClock(auto_advance=True)
        self.subjects = self.another(0)

    def another(self, seed: int) -> Subjects:
        """Return the subjects of another process over the same table."""
        return Subjects(self.table, self.clock, SeededRng(seed))


@pytest.fixture
def world() -> World:
    return World()


def avro(*names: str) -> Schema:
    fields = [{"name": name, "type": "int", "default": 0} for name in names]
    return Schema("AVRO", json.dumps({"type": "record", "name": "R", "fields": fields}))


async def refused(code: int, call: Any) -> RegistryError:
    with pytest.raises(RegistryError) as caught:
        await call
    assert caught.value.error_code == code, caught.value.message
    return caught.value


async def test_one_schema_has_one_id_and_ids_are_dense(world: World) -> None:
    made = [await world.subjects.register(f"s{i}", avro("a")) for i in range(3)]
    assert {registered.stored.schema_id for registered in made} == {1}
    assert (await world.subjects.register("s0", avro("a", "b"))).stored.schema_id == 2
    await refused(409, world.subjects.register("s0", Schema("AVRO", '"string"')))
    assert (await world.subjects.register("s0", avro("a", "c"))).stored.schema_id == 3  # the refused one took none
    assert await world.subjects.versions("s0") == [1, 2, 3]
    assert [registered.stored.schema_id for registered in await world.subjects.schemas("s0")] == [1, 2, 3]


async def test_a_known_schema_writes_nothing(world: World) -> None:
    await world.subjects.register("s", avro("a"))
    world.table.calls.clear()
    assert (await world.subjects.register("s", avro("a"))).version == 1
    assert not {"put", "update", "transact", "delete"} & set(world.table.calls)


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("is_known", [False, True])
async def test_registering_survives_a_failing_transaction(world: World, fault: Fault, is_known: bool) -> None:
    if is_known:
        await world.subjects.register("elsewhere", avro("a"))
    world.table.script = {("transact", world.table.count("transact") + 1): fault}
    made = await world.subjects.register("s", avro("a"))
    await world.table.deliver_late()
    assert (made.version, made.stored.schema_id) == (1, 1)
    assert await world.another(1).versions("s") == [1]
    assert (await world.subjects.register("s", avro("a", "b"))).stored.schema_id == 2


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("permanent", [False, True])
async def test_deletion_survives_a_failing_write(world: World, fault: Fault, permanent: bool) -> None:
    for name in ("s", "t"):
        await world.subjects.register(name, avro("a"))
        await world.subjects.register(name, avro("a", "b"))
        if permanent:
            await world.subjects.delete_subject(name)
    world.table.script = {("put", world.table.count("put") + 1): fault}
    assert await world.subjects.delete_version("s", 1, permanent=permanent) == 1
    world.table.script = {("put", world.table.count("put") + 1): fault}
    assert await world.subjects.delete_subject("t", permanent=permanent) == [1, 2]
    await world.table.deliver_late()
    left = await world.subjects.versions("s", deleted=True)
    assert left == ([2] if permanent else [1, 2])
    assert await world.subjects.names(deleted=True) == (["s"] if permanent else ["s", "t"])


async def test_a_late_choice_undoes_no_later_one(world: World) -> None:
    world.table.script = {("put", 1): Fault.LATE}
    await world.subjects.set_config("s", level=Level.FULL)
    await world.subjects.set_config("s", level=Level.NONE)
    await world.table.deliver_late()
    assert (await world.subjects.config("s")).level is Level.NONE


async def test_racing_registrations_give_dense_ids_and_one_id_a_schema(world: World) -> None:
    world.table = Yielding(world.table)
    registries = [world.another(i) for i in range(8)]

    async def work(number: int) -> list[int]:
        ids = []
        for i in range(4):
            own = await registries[number].register(f"own-{number}", avro(*"abcd"[: i + 1]))
            ids += [own.stored.schema_id, (await registries[number].register("shared", avro("x"))).stored.schema_id]
            mine = Schema("AVRO", json.dumps({"type": "fixed", "name": f"F{number}x{i}", "size": i}))
            ids.append((await registries[number].register(f"fixed-{number}-{i}", mine)).stored.schema_id)
        return ids

    ids_by_worker = await asyncio.gather(*(work(i) for i in range(8)))
    assert {schema_id for ids in ids_by_worker for schema_id in ids} == set(range(1, 8 * 4 + 4 + 1 + 1))
    assert len({ids[1] for ids in ids_by_worker}) == 1
    assert await world.subjects.versions("shared") == [1]
    rows = await world.table.query(REGISTRY_SCHEMAS_PK)
    assert [int(row.key.sk) for row in rows] == list(range(1, len(rows) + 1))


async def test_references_hold_what_they_refer_to(world: World) -> None:
    subjects = world.subjects
    await subjects.register("unit", Schema("AVRO", '{"type": "enum", "name": "U", "symbols": ["C"]}'))
    user = Schema("AVRO", '{"type": "array", "items": "U"}', (Reference("U", "unit", 1),))
    made = await subjects.register("user", user)
    assert await subjects.referenced_by("unit", 1) == [made.stored.schema_id]
    await refused(42206, subjects.delete_version("unit", 1))
    await refused(42206, subjects.delete_subject("unit"))
    missing = Schema("AVRO", '{"type": "array", "items": "U"}', (Reference("U", "unit", 9),))
    await refused(42201, subjects.register("user", missing))
    await subjects.delete_subject("user")
    assert await subjects.delete_subject("unit") == [1]
    await refused(42201, subjects.register("again", user))  # what it refers to is deleted
    await refused(42201, subjects.register("again", Schema("AVRO", '{"type": "array", "items": "U"}')))


async def test_a_reference_made_meanwhile_stops_a_deletion(world: World) -> None:
    unit = Schema("AVRO", '{"type": "enum", "name": "U", "symbols": ["C"]}')
    await world.subjects.register("unit", unit)
    other = world.another(1)
    user = Schema("AVRO", '{"type": "array", "items": "U"}', (Reference("U", "unit", 1),))
    real_put = world.table._port.put

    async def put_after_the_other(put: Any) -> None:
        world.table._port.put = real_put
        await other.register("user", user)
        await real_put(put)

    world.table._port.put = put_after_the_other
    await refused(42206, world.subjects.delete_version("unit", 1))
    assert await world.subjects.versions("unit") == [1]


async def test_levels_compare_with_the_versions_that_they_name(world: World) -> None:
    subjects = world.subjects
    text = '{"type": "record", "name": "R", "fields": [%s]}'
    with_default, without = '{"name": "a", "type": "int", "default": 1}', '{"name": "a", "type": "int"}'
    first, second, third = (Schema("AVRO", text % extra) for extra in ("", with_default, without))
    for level in (Level.BACKWARD, Level.BACKWARD_TRANSITIVE):
        name = level.value
        await subjects.set_config(name, level=level)
        await subjects.register(name, first)
        await subjects.register(name, second)
        messages = await subjects.check(name, third, every=True)
        assert bool(messages) == (level is Level.BACKWARD_TRANSITIVE), messages
        assert await subjects.check(name, third, version=1)
        assert not await subjects.check(name, third, version=2)
    assert "version 1" in messages[0]
    await subjects.set_config("forward", level=Level.FORWARD)
    await subjects.register("forward", first)
    await subjects.register("forward", third)  # what the first reads, though it could not read the first
    await refused(409, subjects.register("forward", Schema("JSON", "{}")))
    await subjects.set_config("forward", level=Level.NONE)
    await subjects.register("forward", Schema("JSON", "{}"))


async def test_soft_deleted_versions_are_hidden_and_come_back_as_new_ones(world: World) -> None:
    subjects = world.subjects
    await subjects.register("s", avro("a"))
    await refused(40407, subjects.delete_version("s", 1, permanent=True))
    await subjects.delete_version("s", 1)
    await refused(40406, subjects.delete_version("s", 1))
    await refused(40401, subjects.versions("s"))
    await refused(40404, subjects.delete_subject("s"))
    assert (await subjects.lookup("s", avro("a"), deleted=True)).version == 1
    again = await subjects.register("s", avro("a"))
    assert (again.version, again.stored.schema_id) == (2, 1)
    assert (await subjects.schema(1)).schema == avro("a")
    await refused(40403, subjects.schema(2))
    await refused(40402, subjects.version("s", 9))
    await refused(40405, subjects.delete_subject("s", permanent=True))


async def test_modes(world: World) -> None:
    subjects = world.subjects
    await subjects.set_mode("s", "READONLY")
    await refused(42205, subjects.register("s", avro("a")))
    await subjects.clear_mode("s")
    await refused(42205, subjects.register("s", avro("a"), schema_id=7))
    await subjects.set_mode("s", "IMPORT")
    assert (await subjects.register("s", avro("a"), schema_id=7, version=3)).version == 3
    assert (await subjects.register("s", avro("b"), schema_id=4, version=4)).stored.schema_id == 4
    await refused(42207, subjects.register("s", avro("a"), schema_id=8, version=5))
    await refused(42205, subjects.register("s", avro("c"), schema_id=7, version=5))
    await refused(42205, subjects.set_mode("s", "IMPORT"))
    await subjects.set_mode("s", "READWRITE")
    assert (await subjects.register("s", avro("a", "b"))).stored.schema_id == 8  # ids go on above what was imported


async def test_normalizing_makes_one_schema_of_two_spellings(world: World) -> None:
    one = Schema("AVRO", '{"type":"record","name":"n.R","fields":[{"name":"a","type":{"type":"array","items":"n.R"}}]}')
    two = Schema(
        "AVRO",
        '{"type":"record","namespace":"n","name":"R","fields":[{"name":"a","type":{"type":"array","items":"R"}}]}',
    )
    first = await world.subjects.register("s", one, normalize=True)
    assert (await world.subjects.register("s", two, normalize=True)).stored.schema_id == first.stored.schema_id
    await world.subjects.set_config("t", level=None, normalize=True)
    assert (await world.subjects.register("t", two)).stored.schema_id == first.stored.schema_id


async def test_what_is_too_much_or_no_name_is_refused(world: World) -> None:
    await refused(42209, world.subjects.register("s", Schema("JSON", '"' + "x" * SCHEMA_BYTES_MAX + '"')))
    for name in ("", "a\x00b", "x" * 600, ":.ctx:s"):
        await refused(42208, world.subjects.register(name, avro("a")))


async def test_a_schema_of_many_subjects_is_found_in_all_of_them(world: World) -> None:
    for i in range(103):
        await world.subjects.register(f"s{i:03d}", avro("a"))
    assert len(await world.subjects.uses(1)) == 103
    assert (await world.subjects.fresh_schema(1)).has_more


async def test_a_table_that_never_answers_is_told(world: World) -> None:
    world.table.script = {("transact", i): Fault.UNAVAILABLE for i in range(1, 100)}
    await refused(50301, world.subjects.register("s", avro("a")))
    world.table.script = {("get", i): Fault.UNAVAILABLE for i in range(1, 10_000)}
    await refused(50301, world.subjects.versions("s"))


async def test_a_process_keeps_a_bounded_number_of_schemas(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.registry.subjects._SCHEMAS_KEPT", 3)
    for number in range(8):
        made = await world.subjects.register(f"s{number}", avro(f"f{number}"))
        assert (await world.subjects.schema(made.stored.schema_id)).schema_id == number + 1
    assert len(world.subjects._schemas) <= 3
