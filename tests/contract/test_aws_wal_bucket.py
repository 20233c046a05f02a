"""The contract of the object store where the WAL has a bucket of its own."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest
from odradek.adapters.aws.wal_bucket import WalApart
from odradek.cost.metering import UsageMeter
from odradek.ports.meter import Usage
from odradek.ports.object_store import ObjectStore
from odradek.testing.contract import check_id
from odradek.testing.contract_object_store import OBJECT_STORE_CHECKS, ObjectStoreCheck

from tests.support.stores.aws import CREDENTIALS, create_bucket, create_tables, moto_server, open_store


@pytest.fixture
def pk() -> str:
    return uuid.uuid4().hex


@pytest.fixture(scope="module")
def wal_apart() -> Iterator[ObjectStore]:
    """Two buckets, the second one asked as a directory bucket is (moto has none: an ordinary one answers)."""
    with pytest.MonkeyPatch.context() as patch, moto_server() as endpoint:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        names = create_tables(endpoint)
        create_bucket(endpoint, "wal")
        store = open_store(endpoint, replace(names, bucket=f"{names.bucket},wal"))
        yield store.objects
        asyncio.run(store.aclose())


@pytest.mark.parametrize("check", OBJECT_STORE_CHECKS, ids=check_id)
async def test_object_store_with_the_wal_apart(check: ObjectStoreCheck, wal_apart: ObjectStore, pk: str) -> None:
    await check(wal_apart, f"wal/{pk}/")


async def test_the_directory_bucket_is_billed_as_one(wal_apart: WalApart, pk: str) -> None:
    meter = UsageMeter()
    wal_apart._wal._meter._meter = wal_apart._main._meter = meter
    await wal_apart.put(f"wal/{pk}/1", [b"abc"])
    await wal_apart.get_range(f"wal/{pk}/1", 0, 2)
    await wal_apart.put(f"topics/{pk}/1", [b"abcde"])
    assert meter.total() == Usage(
        object_put_requests=1,
        object_bytes_written=5,
        express_put_requests=1,
        express_get_requests=1,
        express_bytes_written=3,
        express_bytes_read=2,
    )


async def test_uploads_from_before_the_wal_had_a_bucket_of_its_own(wal_apart: WalApart, pk: str) -> None:
    old, new, segment = f"wal/{pk}/1", f"wal/{pk}/2", f"topics/{pk}/3"
    await wal_apart._main.put(old, [b"old"])
    for key in (new, segment):
        await wal_apart.put(key, [b"new"])
    assert await wal_apart._main.head(new) is None, "the WAL goes to its bucket"
    assert await wal_apart._wal.head(segment) is None
    assert (await wal_apart.get(old), await wal_apart.get_range(old, 1, 2)) == (b"old", b"ld")
    assert [info.key for info in await wal_apart.list(f"wal/{pk}/")] == [old, new]
    assert [info.key for info in await wal_apart.list(f"wal/{pk}/", start_after=old, limit=1)] == [new]
    await wal_apart.delete([old, new, segment])
    assert [info for prefix in ("wal/", "topics/") for info in await wal_apart.list(f"{prefix}{pk}/")] == []
