"""Promises of files beyond the contract: whole or not at all, whatever fails."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from odradek.adapters.embedded import FileObjectStore, open_embedded
from odradek.adapters.embedded.object_store import DIRECT_PUT_BYTES_MAX
from odradek.errors import ObjectExists, ObjectMissing, OutcomeUnknown, StoreUnavailable


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileObjectStore]:
    store = FileObjectStore(tmp_path)
    yield store
    await store.aclose()


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _failing_fsync(*, of_folders: bool) -> Callable[[int], None]:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode) is of_folders:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    return fsync


async def test_a_full_disk_leaves_no_object(
    store: FileObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", _failing_fsync(of_folders=False))
    with pytest.raises(StoreUnavailable, match="No space left"):
        await store.put("wal/a", [b"x"])
    monkeypatch.undo()
    assert _files(tmp_path) == []
    with pytest.raises(ObjectMissing):
        await store.get("wal/a")
    await store.put("wal/a", [b"x"])


async def test_a_folder_that_does_not_sync_leaves_the_outcome_open(
    store: FileObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.put("wal/first", [b"x"])
    monkeypatch.setattr(os, "fsync", _failing_fsync(of_folders=True))
    with pytest.raises(OutcomeUnknown):
        await store.put("wal/a", [b"x"])
    assert await store.get("wal/a") == b"x"


async def test_uploads_leave_only_objects(store: FileObjectStore, tmp_path: Path) -> None:
    await store.put("wal/2026/a", [b"x"])
    assert _files(tmp_path) == ["objects/wal/2026/a"]


async def test_crashed_uploads_are_removed_on_open(tmp_path: Path) -> None:
    async with open_embedded(tmp_path) as embedded:
        await embedded.objects.put("wal/a", [b"x"])
    (tmp_path / "uploads" / "left").write_bytes(b"half")
    async with open_embedded(tmp_path, read_only=True):
        assert (tmp_path / "uploads" / "left").exists(), "only the writer cleans up"
    async with open_embedded(tmp_path) as embedded:
        assert await embedded.objects.get("wal/a") == b"x"
    assert _files(tmp_path / "uploads") == []


async def test_empty_folders_go_and_come_back(store: FileObjectStore, tmp_path: Path) -> None:
    for _ in range(2):
        await store.put("wal/2026/a", [b"x"])
        await store.delete(["wal/2026/a"])
        assert not (tmp_path / "objects" / "wal").exists()


async def test_a_key_is_no_folder_of_another(store: FileObjectStore) -> None:
    await store.put("a/b", [b"x"])
    with pytest.raises(ValueError, match="folder"):
        await store.put("a", [b"x"])
    with pytest.raises(ValueError, match="is another object"):
        await store.put("a/b/c", [b"x"])
    await store.delete(["a"])
    assert await store.get("a/b") == b"x"


async def test_without_fsync_nothing_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(descriptor: int) -> None:
        raise AssertionError("fsync was called")

    monkeypatch.setattr(os, "fsync", fsync)
    store = FileObjectStore(tmp_path, fsync=False)
    await store.put("wal/a", [b"x"])
    assert await store.get("wal/a") == b"x"
    await store.aclose()


def _at_once(call: Coroutine[Any, Any, Any]) -> Any:
    """The result of a call that never waits for its loop. Raises AssertionError if it does."""
    try:
        call.send(None)
    except StopIteration as done:
        return done.value
    call.close()
    raise AssertionError("it waits")


async def test_small_unsynced_objects_are_written_in_their_callers_thread(tmp_path: Path) -> None:
    store = FileObjectStore(tmp_path, fsync=False)
    _at_once(store.put("a/b", [b"bytes", memoryview(b" of two parts")]))
    assert await store.get("a/b") == b"bytes of two parts"
    with pytest.raises(ObjectExists):
        _at_once(store.put("a/b", [b"others"]))
    with pytest.raises(AssertionError, match="waits"):
        _at_once(store.put("a/c", [bytes(DIRECT_PUT_BYTES_MAX + 1)]))
    await store.aclose()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.put("a/d", [b""])


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the system does not tell what its cache has")
async def test_a_range_in_the_systems_cache_is_read_in_its_callers_thread(store: FileObjectStore) -> None:
    await store.put("a", [b"0123456789"])
    if not store.reads_directly:
        pytest.skip("the file system of temporary files does not tell what is in the cache")
    assert _at_once(store.get_range("a", 2, 3)) == b"234"
    assert await store.get_range("a", 8, 5) == b"89"  # as the contract says of a range past the end
    with pytest.raises(ObjectMissing):
        await store.get_range("b", 0, 1)


async def test_what_is_not_in_the_systems_cache_is_read_by_a_thread(
    store: FileObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.put("a", [b"0123456789"])
    answers: list[Callable[[], int]] = [_raise(errno.EAGAIN), lambda: 2, _raise(errno.EOPNOTSUPP)]
    monkeypatch.setattr(os, "preadv", lambda *_: answers.pop(0)(), raising=False)
    monkeypatch.setattr(FileObjectStore, "reads_directly", True)
    for _ in range(3):
        assert await store.get_range("a", 2, 3) == b"234"
    assert not answers
    assert not store.reads_directly  # a file system without the flag is not asked again
    assert await store.get_range("a", 2, 3) == b"234"


def _raise(number: int) -> Callable[[], int]:
    def raising() -> int:
        raise OSError(number, os.strerror(number))

    return raising


@pytest.mark.parametrize("folder", ["objects/wal/1", "objects/wal", "objects", "uploads"])
async def test_a_folder_that_was_removed_behind_its_back_is_made_again(
    folder: str, store: FileObjectStore, tmp_path: Path
) -> None:
    await store.put("wal/1/a", [b"a"])
    await store.put("wal/2/a", [b"a"])
    shutil.rmtree(tmp_path / folder)
    for key in ("wal/1/b", "wal/2/b", "other/b"):
        await store.put(key, [b"b"])
        assert await store.get(key) == b"b"
    assert _files(tmp_path / "uploads") == []


async def test_a_folder_that_another_put_is_making_again_is_synced_with_its_parent(
    store: FileObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other put has not come to that yet; after a power loss the object would be gone with the folder's name."""
    await store.put("folder/first", [b"1"])
    objects = next(path.parent.parent for path in tmp_path.rglob("first"))
    await store.delete(["folder/first"])
    (objects / "folder").mkdir()
    synced: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    await store.put("folder/second", [b"2"])
    assert objects.stat().st_ino in synced
