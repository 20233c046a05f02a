"""The contract of ports.object_store.ObjectStore: what every backend must do, as functions to run over it.

Each check is `async def check(store, prefix)` and touches only keys that begin with `prefix`, which ends with a slash.
Run them one by one from a test framework (tests/contract does), or all at once with `check_object_store`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from odradek.errors import ObjectExists, ObjectMissing, StoreRejected
from odradek.ports.object_store import ObjectStore
from odradek.testing.contract import failure

ObjectStoreCheck = Callable[[ObjectStore, str], Awaitable[None]]


async def parts_are_joined_in_order(store: ObjectStore, prefix: str) -> None:
    await store.put(prefix + "a/b.log", [b"one", bytearray(b"two"), memoryview(b"xthreex")[1:-1], b""])
    assert await store.get(prefix + "a/b.log") == b"onetwothree"
    assert type(await store.get(prefix + "a/b.log")) is bytes


async def an_empty_object_is_an_object(store: ObjectStore, prefix: str) -> None:
    await store.put(prefix + "empty", [])
    assert await store.get(prefix + "empty") == b""
    assert await store.get_range(prefix + "empty", 0, 10) == b""
    info = await store.head(prefix + "empty")
    assert info is not None
    assert info.size_bytes == 0


async def a_large_object_comes_back(store: ObjectStore, prefix: str) -> None:
    content = bytes(range(256)) * 16 * 1024  # 4 MiB
    await store.put(prefix + "large", [content[:1000], content[1000:]])
    assert await store.get(prefix + "large") == content
    assert await store.get_range(prefix + "large", 3_000_001, 100) == content[3_000_001:3_000_101]


async def an_object_is_created_once(store: ObjectStore, prefix: str) -> None:
    await store.put(prefix + "once", [b"first"])
    await failure(ObjectExists, store.put(prefix + "once", [b"second"]))
    assert await store.get(prefix + "once") == b"first"


async def racing_creators_have_one_winner(store: ObjectStore, prefix: str) -> None:
    async def create(content: bytes) -> bool:
        try:
            await store.put(prefix + "race", [content])
        except ObjectExists:
            return False
        return True

    contents = [b"%02d" % number * 1000 for number in range(16)]
    won = await asyncio.gather(*(create(content) for content in contents))
    assert won.count(True) == 1
    assert await store.get(prefix + "race") == contents[won.index(True)]


async def ranges_end_with_the_object(store: ObjectStore, prefix: str) -> None:
    await store.put(prefix + "ten", [b"0123456789"])
    assert await store.get_range(prefix + "ten", 0, 10) == b"0123456789"
    assert await store.get_range(prefix + "ten", 0, 1) == b"0"
    assert await store.get_range(prefix + "ten", 3, 4) == b"3456"
    assert await store.get_range(prefix + "ten", 8, 100) == b"89"
    assert await store.get_range(prefix + "ten", 9, 1) == b"9"
    assert await store.get_range(prefix + "ten", 10, 5) == b""
    assert await store.get_range(prefix + "ten", 1000, 5) == b""
    assert await store.get_range(prefix + "ten", 4, 0) == b""
    for start, length in ((-1, 5), (0, -1)):
        await failure(ValueError, store.get_range(prefix + "ten", start, length))


async def a_missing_object_is_told_apart(store: ObjectStore, prefix: str) -> None:
    await store.put(prefix + "folder/there", [b"x"])
    for key in (prefix + "missing", prefix + "folder", prefix + "folder/there2", prefix + "no/such/folder"):
        await failure(ObjectMissing, store.get(key))
        await failure(ObjectMissing, store.get_range(key, 0, 1))
        await failure(ObjectMissing, store.get_range(key, 0, 0))
        assert await store.head(key) is None


async def head_tells_size_and_time(store: ObjectStore, prefix: str) -> None:
    await store.put(prefix + "sized", [b"12345"])
    info = await store.head(prefix + "sized")
    assert info is not None
    assert (info.key, info.size_bytes) == (prefix + "sized", 5)
    assert info.last_modified_ms > 1_500_000_000_000
    (listed,) = await store.list(prefix)
    assert (listed.key, listed.size_bytes) == (prefix + "sized", 5)
    assert abs(listed.last_modified_ms - info.last_modified_ms) < 1000, "S3 keeps whole seconds in one of the two"


async def list_orders_by_key(store: ObjectStore, prefix: str) -> None:
    names = ["b/2", "b/10", "b-1", "b.c/x", "a", "c/d/e", "c/d0", "Z", "é", "b/1/deep"]
    for name in names:
        await store.put(prefix + name, [b"x"])
    ordered = sorted((prefix + name for name in names), key=str.encode)
    assert [info.key for info in await store.list(prefix)] == ordered
    assert [info.key for info in await store.list(prefix + "b/")] == [prefix + n for n in ("b/1/deep", "b/10", "b/2")]
    assert [info.key for info in await store.list(prefix + "b")] == [
        key for key in ordered if "b" in key[len(prefix) :]
    ]
    assert [info.key for info in await store.list(prefix + "c/d")] == [prefix + "c/d/e", prefix + "c/d0"]
    assert await store.list(prefix + "nothing") == []
    assert await store.list(prefix + "no/such/folder/") == []


async def list_goes_on_where_it_stopped(store: ObjectStore, prefix: str) -> None:
    names = [f"{folder}/{number:02d}" for folder in ("x", "x-y", "z") for number in range(9)]
    await asyncio.gather(*(store.put(prefix + name, [b"x"]) for name in names))
    expected = sorted(prefix + name for name in names)
    keys: list[str] = []
    while page := await store.list(prefix, start_after=keys[-1] if keys else "", limit=5):
        assert len(page) <= 5
        keys += [info.key for info in page]
    assert keys == expected
    assert [i.key for i in await store.list(prefix + "x/", start_after=prefix + "x/03")] == expected_after(
        expected, prefix + "x/", prefix + "x/03"
    )
    assert [i.key for i in await store.list(prefix, start_after=prefix + "x/03x", limit=2)] == [
        prefix + "x/04",
        prefix + "x/05",
    ]
    assert await store.list(prefix, start_after=expected[-1]) == []


def expected_after(keys: list[str], prefix: str, start_after: str) -> list[str]:
    return [key for key in keys if key.startswith(prefix) and key > start_after]


async def delete_forgives_what_is_missing(store: ObjectStore, prefix: str) -> None:
    for name in ("a", "b", "folder/c", "folder/d"):
        await store.put(prefix + name, [b"x"])
    await store.delete([])
    await store.delete([prefix + name for name in ("a", "missing", "folder/c", "no/such/folder")])
    assert [info.key for info in await store.list(prefix)] == [prefix + "b", prefix + "folder/d"]
    await failure(ObjectMissing, store.get(prefix + "a"))
    await store.delete([prefix + "a", prefix + "b", prefix + "folder/d"])
    assert await store.list(prefix) == []


async def hostile_keys_are_refused(store: ObjectStore, prefix: str) -> None:
    bad = ["", "/", "/etc/passwd", "../x", "a/../../x", "a/./b", "a//b", "a/", "..", ".", "a\0b", "a\\b", "\ud800"]
    for key in [*bad, "x" * 256]:
        await failure(ValueError, store.put(key, [b"x"]))
        await failure(ValueError, store.get(key))
        await failure(ValueError, store.get_range(key, 0, 1))
        await failure(ValueError, store.head(key))
        await failure(ValueError, store.delete([prefix + "fine", key]))
    for key in ("x" * 1025, "é" * 513, "/".join(["x" * 204] * 5) + "xx"):
        await failure(StoreRejected, store.put(key, [b"x"]))
        await failure(StoreRejected, store.get(key))
    for start in ("/etc/", "../", "a/../..", "a//", "a\0"):
        await failure(ValueError, store.list(start))
    assert await store.list(prefix) == []


async def odd_but_honest_keys_are_taken(store: ObjectStore, prefix: str) -> None:
    names = ["with space", "ünïcode-☃", "a+b&c=d?e#f%20", "...", ".hidden", "tilde~", "x" * 200]
    for name in names:
        await store.put(prefix + name, [name.encode()])
    for name in names:
        assert await store.get(prefix + name) == name.encode()
    assert {info.key for info in await store.list(prefix)} == {prefix + name for name in names}
    await store.delete([prefix + name for name in names])
    assert await store.list(prefix) == []


OBJECT_STORE_CHECKS: tuple[ObjectStoreCheck, ...] = (
    parts_are_joined_in_order,
    an_empty_object_is_an_object,
    a_large_object_comes_back,
    an_object_is_created_once,
    racing_creators_have_one_winner,
    ranges_end_with_the_object,
    a_missing_object_is_told_apart,
    head_tells_size_and_time,
    list_orders_by_key,
    list_goes_on_where_it_stopped,
    delete_forgives_what_is_missing,
    hostile_keys_are_refused,
    odd_but_honest_keys_are_taken,
)


async def check_object_store(make: Callable[[], AbstractAsyncContextManager[ObjectStore]]) -> None:
    """Run every check over a store that `make` opens."""
    async with make() as store:
        for number, check in enumerate(OBJECT_STORE_CHECKS):
            await check(store, f"contract-{number}/")
