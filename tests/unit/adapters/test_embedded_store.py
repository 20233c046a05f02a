"""Promises of the embedded store beyond the contract: one writer, group commit, errors that leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from odradek.adapters.embedded import EmbeddedStore, open_embedded
from odradek.adapters.embedded.database import DIRECT_PLACES_MAX
from odradek.adapters.embedded.item_codec import decode_item, encode_item
from odradek.errors import ConditionFailed, ItemTooLarge, OutcomeUnknown, StoreFull, StoreRejected, StoreUnavailable
from odradek.ports.table import Absent, Add, Append, Compare, Item, Key, Put, Set, Update

COUNTER = Key("t#0", "head")


async def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    async with open_embedded(tmp_path):
        with pytest.raises(StoreUnavailable, match="one writer"):
            open_embedded(tmp_path)
    async with open_embedded(tmp_path) as store:
        await store.log.put(Put(COUNTER, {}))


async def test_a_second_writing_process_is_refused(tmp_path: Path) -> None:
    program = f"from odradek.adapters.embedded import open_embedded; open_embedded({str(tmp_path)!r})"
    async with open_embedded(tmp_path):
        second = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert second.returncode != 0
    assert "in use by another process" in second.stderr


async def test_readers_see_what_is_committed(tmp_path: Path) -> None:
    async with open_embedded(tmp_path) as writer, open_embedded(tmp_path, read_only=True) as reader:
        assert await reader.log.get(COUNTER) is None
        await writer.log.put(Put(COUNTER, {"n": 1}))
        await writer.objects.put("wal/a", [b"bytes"])
        assert await reader.log.get(COUNTER) == {"n": 1}
        assert await reader.objects.get("wal/a") == b"bytes"
        with pytest.raises(StoreUnavailable, match="for reading"):
            await reader.log.put(Put(COUNTER, {}))
    async with open_embedded(tmp_path, read_only=True) as reader:
        assert await reader.log.get(COUNTER) == {"n": 1}


async def test_a_reader_makes_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no store"):
        open_embedded(tmp_path / "nothing", read_only=True)
    assert not (tmp_path / "nothing").exists()


async def test_closing_finishes_what_is_queued(tmp_path: Path) -> None:
    store = open_embedded(tmp_path)
    writes = [asyncio.ensure_future(store.log.update(Update(COUNTER, (Add(("n",), 1),)))) for _ in range(200)]
    await asyncio.sleep(0)
    await store.aclose()
    await asyncio.gather(*writes)
    await store.aclose()
    for call in (store.log.get(COUNTER), store.log.put(Put(COUNTER, {})), store.objects.get("a")):
        with pytest.raises(StoreUnavailable, match="closed"):
            await call
    async with open_embedded(tmp_path) as store:
        assert await store.log.get(COUNTER) == {"n": 200}
    assert not (tmp_path / "odradek.db-wal").exists(), "the log is folded into the file"


async def test_a_refused_write_does_not_hinder_its_group(tmp_path: Path) -> None:
    """All of these wait while the writer starts, so they are committed together."""
    async with open_embedded(tmp_path) as store:
        await store.log.put(Put(Key("t", "full"), {"data": b"x" * 400_000}))
        outcomes = await asyncio.gather(
            store.log.update(Update(COUNTER, (Add(("n",), 1),))),
            store.log.update(Update(COUNTER, (Add(("n",), 100),), Compare(("n",), "=", 7))),
            store.log.update(Update(COUNTER, (Append(("nothing",), (1,)),))),
            store.log.update(Update(Key("t", "full"), (Set(("more",), b"x" * 20_000),))),
            store.log.transact([Put(Key("t", "both"), {}), Put(COUNTER, {}, Absent(("n",)))]),
            store.log.update(Update(COUNTER, (Add(("n",), 1),))),
            return_exceptions=True,
        )
        first, refused, bug, large, canceled, last = outcomes
        assert first == {"n": 1}
        assert isinstance(refused, ConditionFailed)
        assert refused.current == {"n": 1}
        assert isinstance(bug, StoreRejected)
        assert isinstance(large, ItemTooLarge)
        assert isinstance(canceled, BaseException)
        assert last == {"n": 2}
        assert await store.log.get(COUNTER) == {"n": 2}
        assert await store.log.get(Key("t", "both")) is None


async def test_a_write_stands_when_its_caller_gives_up(tmp_path: Path) -> None:
    async with open_embedded(tmp_path) as store:
        write = asyncio.ensure_future(store.log.put(Put(COUNTER, {"n": 1})))
        await asyncio.sleep(0)
        write.cancel()
        await store.log.put(Put(Key("t", "later"), {}))
        assert await store.log.get(COUNTER) == {"n": 1}


def _page_limit(store: EmbeddedStore, pages: int) -> None:
    store._database._connection.execute(f"PRAGMA max_page_count = {pages}")


async def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    async with open_embedded(tmp_path) as store:
        await store.log.put(Put(COUNTER, {"n": 1}))
        _page_limit(store, 20)  # SQLite meets its limit of pages as it meets a full disk
        with pytest.raises(StoreUnavailable, match="full"):
            await store.log.transact([Put(COUNTER, {"n": 2}), Put(Key("t", "large"), {"data": b"x" * 300_000})])
        assert await store.log.get(COUNTER) == {"n": 1}
        assert await store.log.get(Key("t", "large")) is None
        await store.log.put(Put(COUNTER, {"n": 3}))
        _page_limit(store, 1_000_000)
        await store.log.put(Put(Key("t", "large"), {"data": b"x" * 300_000}))
    async with open_embedded(tmp_path) as store:
        assert await store.log.get(COUNTER) == {"n": 3}


async def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreUnavailable, match="cannot write"):
        open_embedded(tmp_path / "file")


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "odradek.db").write_bytes(b"something else entirely" * 1000)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="not a database"):
            open_embedded(tmp_path)


async def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "odradek.db")
    connection.execute("CREATE TABLE notes (text)")
    connection.close()
    before = (tmp_path / "odradek.db").read_bytes()
    with pytest.raises(StoreUnavailable, match="not a database of Odradek"):
        open_embedded(tmp_path)
    assert (tmp_path / "odradek.db").read_bytes() == before


async def test_a_database_of_another_release(tmp_path: Path) -> None:
    async with open_embedded(tmp_path):
        pass
    connection = sqlite3.connect(tmp_path / "odradek.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreUnavailable, match="version 99"):
        open_embedded(tmp_path)


async def test_synchronous_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="FULL or NORMAL"):
        open_embedded(tmp_path, synchronous="OFF")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"n": 2**63, "m": {"deep": [-(2**63) - 1, 10**38 - 1, True, b"", ""]}},
        {"n": -(2**63), "u": 2**64 - 1},
    ],
)
def test_items_round_trip(item: Item) -> None:
    assert decode_item(encode_item(item)) == item


def _at_once(call: Coroutine[Any, Any, Any]) -> Any:
    """The result of a call that waits for nothing but its next turn. Raises AssertionError if it does."""
    try:
        while call.send(None) is None:
            pass
    except StopIteration as done:
        return done.value
    call.close()
    raise AssertionError("it waits")


async def test_without_syncs_a_write_is_committed_in_its_callers_thread(tmp_path: Path) -> None:
    async with open_embedded(tmp_path, synchronous="NORMAL") as store, open_embedded(tmp_path, read_only=True) as other:
        assert _at_once(store.log.update(Update(COUNTER, (Add(("n",), 1),)))) == {"n": 1}
        assert await other.log.get(COUNTER) == {"n": 1}
        with pytest.raises(ConditionFailed):
            _at_once(store.log.put(Put(COUNTER, {"n": 9}, Absent(("n",)))))
        assert await store.log.get(COUNTER) == {"n": 1}
    with pytest.raises(StoreUnavailable, match="closed"):
        _at_once(store.log.put(Put(COUNTER, {})))


async def test_synced_writes_do_not_block_their_loop(tmp_path: Path) -> None:
    async with open_embedded(tmp_path, synchronous="FULL") as store:
        with pytest.raises(AssertionError, match="waits"):
            _at_once(store.log.put(Put(COUNTER, {})))


async def test_direct_and_queued_writes_of_several_threads_are_one_after_the_other(tmp_path: Path) -> None:
    store = open_embedded(tmp_path, synchronous="NORMAL")

    async def count() -> None:
        for _ in range(20):
            await asyncio.gather(*(store.log.update(Update(COUNTER, (Add(("n",), 1),))) for _ in range(10)))

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, count()) for _ in range(4)))
    assert await store.log.get(COUNTER) == {"n": 800}
    await store.aclose()


async def test_the_write_ahead_log_of_direct_writes_does_not_grow_for_ever(tmp_path: Path) -> None:
    size = 100_000
    async with open_embedded(tmp_path, synchronous="NORMAL") as store:
        for number in range(1_000):  # 25 pages each
            await store.log.put(Put(COUNTER, {"n": number, "data": bytes([number & 255]) * size}))
            if not number % 20:
                await asyncio.sleep(0.001)  # other requests come in: the loop turns
        assert (tmp_path / "odradek.db-wal").stat().st_size < 400 * size
    async with open_embedded(tmp_path, read_only=True) as store:
        item = await store.log.get(COUNTER)
        assert item is not None
        assert item["n"] == 999


async def test_direct_writes_do_not_overtake_who_is_queued(tmp_path: Path) -> None:
    """Else a loop of small writes that never rests would keep a large one waiting."""
    async with open_embedded(tmp_path, synchronous="NORMAL") as store:
        database = store._database
        many = [Put(Key("many", str(number)), {}) for number in range(DIRECT_PLACES_MAX + 1)]
        with database._writing:  # the writer gets no further than the queue
            queued = asyncio.ensure_future(store.log.transact(many))
            await asyncio.sleep(0)
            assert not database._may_commit_directly([])
        await store.log.update(Update(COUNTER, (Add(("n",), 1),)))
        assert queued.done()


@pytest.mark.parametrize(("cut", "hint"), [(0, False), (1, True), (4_100, True), (4_119, True), (4_120, False)])
async def test_a_write_ahead_log_that_ends_within_a_frame_is_said(
    cut: int, hint: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLite ignores the rest of it. Frames of an earlier round are none, however the file ends."""
    async with open_embedded(tmp_path) as store:
        for n in range(3):
            await store.log.put(Put(Key("t#0", f"i{n}"), {"n": n}))
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("odradek.db", "odradek.db-wal"):
            (copy / name).write_bytes((tmp_path / name).read_bytes())
    log = copy / "odradek.db-wal"
    os.truncate(log, log.stat().st_size - cut)
    async with open_embedded(copy) as store:
        assert await store.log.get(Key("t#0", "i0")) == {"n": 0}
    said = [record.getMessage() for record in caplog.records if record.name == "odradek.store"]
    assert len(said) == hint
    if hint:
        assert f"ends within a frame: its last {4_120 - cut} bytes are ignored" in said[0]
    caplog.clear()
    async with open_embedded(copy):
        assert not caplog.records, "it was moved into the file"


async def test_what_an_earlier_round_left_in_the_write_ahead_log_is_no_torn_frame(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_embedded(tmp_path) as store:
        for n in range(40):
            await store.log.put(Put(Key("t#0", f"i{n}"), {"n": n, "d": b"x" * 5_000}))
        with sqlite3.connect(tmp_path / "odradek.db") as other:
            assert other.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0] == 0
        other.close()
        await store.log.put(Put(COUNTER, {"n": 1}))  # the log begins again, over the frames before
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("odradek.db", "odradek.db-wal"):
            (copy / name).write_bytes((tmp_path / name).read_bytes())
    log = copy / "odradek.db-wal"
    os.truncate(log, log.stat().st_size - 100)
    async with open_embedded(copy) as store:
        assert await store.log.get(COUNTER) == {"n": 1}
    assert not caplog.records


async def test_all_of_a_group_are_told_when_its_commit_fails(tmp_path: Path) -> None:
    """Also who was refused, or read only: by what the group would have written, which is gone."""
    async with open_embedded(tmp_path) as store:
        await store.log.put(Put(COUNTER, {"n": 0}))
        _page_limit(store, 20)
        outcomes = await asyncio.gather(
            store.log.update(Update(COUNTER, (Add(("n",), 1),))),
            store.log.update(Update(COUNTER, (Add(("n",), 1),), Compare(("n",), "=", 0))),
            store.log.put(Put(Key("t", "large"), {"data": b"x" * 300_000})),
            store.log.update(Update(COUNTER, (Add(("n",), 1),), Compare(("n",), "=", 1))),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [StoreFull] * 4
        assert await store.log.get(COUNTER) == {"n": 0}
        _page_limit(store, 1_000_000)
        assert await store.log.update(Update(COUNTER, (Add(("n",), 1),))) == {"n": 1}


async def test_a_commit_that_fails_after_it_was_asked_leaves_the_outcome_open(tmp_path: Path) -> None:
    """Its bytes may be in the log. The next group is committed, and answered, by itself."""
    async with open_embedded(tmp_path) as store:
        await store.log.put(Put(COUNTER, {"n": 0}))
        real = store._database._connection

        class Failing:
            def execute(self, sql: str, *arguments: Any) -> Any:
                if sql == "COMMIT":
                    real.execute("ROLLBACK")
                    raise sqlite3.OperationalError("disk I/O error")
                return real.execute(sql, *arguments)

            in_transaction = False

        store._database._connection = Failing()  # type: ignore[assignment]
        outcomes = await asyncio.gather(
            store.log.put(Put(COUNTER, {"n": 1})), store.log.put(Put(Key("t", "a"), {})), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown] * 2
        store._database._connection = real
        await store.log.put(Put(COUNTER, {"n": 2}))
        assert await store.log.get(COUNTER) == {"n": 2}


async def test_a_folder_that_was_copied_while_it_was_written_is_recovered(tmp_path: Path) -> None:
    """As after SIGKILL: a write-ahead log, uploads under way, a lock of a process that is gone."""
    copy = tmp_path / "copy"
    async with open_embedded(tmp_path / "live") as store:
        for n in range(50):
            await store.log.put(Put(Key("t", f"{n:02}"), {"n": n}))
        await store.objects.put("wal/a", [b"whole"])
        (tmp_path / "live" / "uploads" / "crashed").write_bytes(b"half")
        shutil.copytree(tmp_path / "live", copy)
    assert (copy / "odradek.db-wal").stat().st_size > 0
    async with open_embedded(copy) as store:
        rows = await store.log.query("t")
        assert [row.item["n"] for row in rows] == list(range(50))
        assert await store.objects.get("wal/a") == b"whole"
        assert list((copy / "uploads").iterdir()) == []
