"""Items in memory of the process that writes a database: never older than what a reader has seen before."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from odradek.adapters.embedded import open_embedded
from odradek.adapters.embedded.database import Database
from odradek.adapters.embedded.kept_states import KeptStates, Place
from odradek.adapters.expressions import NOTHING, State, state_of
from odradek.errors import OutcomeUnknown
from odradek.ports.table import Add, Delete, KeptItem, Key, Put, Update

KEY = Key("topic-0", "head")
PLACE = Place(0, KEY)


def state(number: int, size: int = 0) -> State:
    return state_of(KEY, {"n": number, "d": bytes(size)})


def test_what_was_read_while_nothing_was_written_is_kept() -> None:
    kept = KeptStates()
    kept.read(PLACE, state(1), kept.moment)
    assert kept.find(PLACE) == state(1)


def test_what_was_read_while_a_commit_was_under_way_is_not_kept() -> None:
    kept = KeptStates()
    before = kept.moment
    kept.begin([PLACE])
    during = kept.moment
    kept.read(PLACE, state(1), before)  # read before it began, told of after
    kept.read(PLACE, state(1), during)
    assert kept.find(PLACE) is None
    kept.end({})
    kept.read(PLACE, state(1), before)
    kept.read(PLACE, state(1), during)
    assert kept.find(PLACE) is None
    kept.read(PLACE, state(2), kept.moment)
    assert kept.find(PLACE) == state(2)


def test_a_commit_replaces_what_it_wrote_and_a_failed_one_leaves_nothing() -> None:
    kept = KeptStates()
    kept.read(PLACE, state(1), kept.moment)
    kept.begin([PLACE])
    assert kept.find(PLACE) is None
    kept.end({PLACE: state(2)})
    assert kept.find(PLACE) == state(2)
    kept.begin([PLACE])
    kept.end({})
    assert kept.find(PLACE) is None
    kept.begin([PLACE])
    kept.end({PLACE: NOTHING})
    assert kept.find(PLACE) is None, "an item that is not there"


def test_what_was_used_least_leaves() -> None:
    kept = KeptStates(bytes_max=2500)
    places = [Place(0, Key("topic-0", f"head-{number}")) for number in range(3)]
    for number, place in enumerate(places[:2]):
        kept.read(place, state(number, 1000), kept.moment)
    assert kept.find(places[0]) is not None
    kept.read(places[2], state(2, 1000), kept.moment)
    assert [kept.find(place) is not None for place in places] == [True, False, True]
    kept.read(places[1], state(3, 3000), kept.moment)
    assert kept.find(places[1]) is None, "one that is larger than all that is kept"


@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
async def test_a_store_returns_its_own_item_until_it_is_written(tmp_path: Path, synchronous: str) -> None:
    async with open_embedded(tmp_path, synchronous=synchronous) as store:  # type: ignore[arg-type]
        await store.log.put(Put(KEY, {"n": 1}))
        first = await store.log.get(KEY)
        assert isinstance(first, KeptItem)
        assert await store.log.get(KEY) is first
        assert (await store.log.get_many([KEY]))[0] is first
        second = await store.log.update(Update(KEY, (Add(("n",), 1),)))
        assert (first, second) == ({"n": 1}, {"n": 2})
        assert await store.log.get(KEY) is second
        await store.log.delete(Delete(KEY))
        assert await store.log.get(KEY) is None
        await store.log.put(Put(KEY, {"n": 3}))
        assert await store.log.get(KEY) == {"n": 3}


@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
async def test_a_commit_that_failed_is_read_from_the_database(tmp_path: Path, synchronous: str) -> None:
    async with open_embedded(tmp_path, synchronous=synchronous) as store:  # type: ignore[arg-type]
        await store.log.put(Put(KEY, {"n": 1}))
        assert await store.log.get(KEY) == {"n": 1}
        original = Database._store

        def stored_and_unsure(self: Database, states: dict[Place, State]) -> OutcomeUnknown:
            original(self, states)
            return OutcomeUnknown("made to fail")

        with patch.object(Database, "_store", stored_and_unsure), pytest.raises(OutcomeUnknown):
            await store.log.update(Update(KEY, (Add(("n",), 1),)))
        assert await store.log.get(KEY) == {"n": 2}, "it was applied, although nobody was told"
        with (
            patch.object(Database, "_store", lambda self, states: OutcomeUnknown("made to fail")),
            pytest.raises(OutcomeUnknown),
        ):
            await store.log.update(Update(KEY, (Add(("n",), 1),)))
        assert await store.log.get(KEY) == {"n": 2}


async def test_a_reader_of_the_folder_sees_what_its_writer_writes(tmp_path: Path) -> None:
    async with open_embedded(tmp_path) as writer:
        await writer.log.put(Put(KEY, {"n": 1}))
        async with open_embedded(tmp_path, read_only=True) as reader:
            assert await reader.log.get(KEY) == {"n": 1}
            await writer.log.update(Update(KEY, (Add(("n",), 1),)))
            assert await reader.log.get(KEY) == {"n": 2}
