"""Damage of stored bytes, and what a reader gets that goes on after each damaged offset."""

from __future__ import annotations

from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.format.record_batch import decode_batches, iter_headers
from odradek.model.log import FetchPartition, FetchResult

from tests.support.engine import Store


async def uploads_of(store: Store) -> list[str]:
    """Keys of uploads, oldest first."""
    keys = [info.key for info in await store.objects.list("wal/")]
    return sorted(keys, key=lambda key: key[-32:])


async def replace(store: Store, key: str, data: bytes | None) -> None:
    """Put other bytes in an object's place, or none."""
    await store.objects.delete([key])
    if data is not None:
        await store.objects.put(key, [data])


async def damage(store: Store, key: str, how: str) -> None:
    data = await store.objects.get(key)
    match how:
        case "missing":
            await replace(store, key, None)
        case "truncated":
            await replace(store, key, data[:-2])
        case "zeros":
            await replace(store, key, bytes(len(data)))
        case "one bit":
            await replace(store, key, data[:-1] + bytes([data[-1] ^ 1]))


def offsets(result: FetchResult) -> list[int]:
    return [record.offset for record in decode_batches(b"".join(result.records))]


async def fetch(engine: Engine, offset: int, max_bytes: int = 1 << 24) -> FetchResult:
    [result] = await engine.fetch([FetchPartition("t", 0, offset, max_bytes=max_bytes)])
    return result


async def readable(engine: Engine, end: int, start: int = 0) -> tuple[list[int], list[int]]:
    """The offsets that a reader gets that goes on after each damage with the next offset; the damaged offsets."""
    offsets_read: list[int] = []
    damaged: list[int] = []
    offset = start
    while offset < end:
        result = await fetch(engine, offset)
        if result.error:
            assert result.error is ErrorCode.CORRUPT_MESSAGE
            assert f"offset {offset} of t-0 cannot be read" in (result.message or "")
            damaged.append(offset)
            offset += 1
            continue
        got = [offset_read for offset_read in offsets(result) if offset_read >= offset]
        offsets_read += got
        after = [header.next_offset for _, header in iter_headers(b"".join(result.records))]
        assert after
        assert after[-1] > offset
        offset = after[-1]
    return offsets_read, damaged
