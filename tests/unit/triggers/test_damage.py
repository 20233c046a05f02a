"""A trigger over damaged uploads: it calls with what lies before, names the damage, and goes on behind it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest
from odradek.engine.audit.store import audit_store
from odradek.format.crc import crc32c

from tests.support.engine import batch, produce
from tests.support.services.dispatched import Dispatched
from tests.support.stores.damage import damage, uploads_of
from tests.unit.triggers.test_dispatcher import FUNCTION, Functions


def not_gzip() -> bytes:
    """A batch of which the header, but not the body, is of one that gzip has compressed."""
    data = bytearray(batch([b"c"]))
    data[22] |= 1
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


async def start(count: int, damaged: Sequence[int], **options: Any) -> tuple[Dispatched, Functions]:
    """A trigger on a log of single records, each in an upload of its own, of which some are missing."""
    functions = Functions()
    dispatched = Dispatched(lambda: functions, item_bytes_max=0)
    await dispatched.engine.topics.create("orders", 2)
    for number in range(count):
        await produce(dispatched.engine, "orders", 0, batch([b"%d" % number]))
        dispatched.clock.advance(0.01)
    keys = await uploads_of(dispatched.store)
    for number in damaged:
        await damage(dispatched.store, keys[number], "missing")
    await dispatched.create(function=FUNCTION.format(name="f"), starting_position="TRIM_HORIZON", **options)
    return dispatched, functions


@pytest.mark.parametrize("options", [{}, {"batching_window_s": 5}, {"parallelization_factor": 3}], ids=str)
async def test_a_missing_upload_hides_neither_records_before_nor_other_partitions(options: dict[str, Any]) -> None:
    dispatched, functions = await start(6, [3], **options)
    await dispatched.work_off()
    await produce(dispatched.engine, "orders", 1, batch([b"fine"]))
    await dispatched.pass_time(30)
    assert sorted(chain.from_iterable(functions.offsets)) == [0, 0, 1, 2], (
        "three records before it, one of the other partition"
    )
    status = await dispatched.status()
    assert (status.offset, status.lag) == (3, 3)
    assert "offset 3 of orders-0 cannot be read: " in status.error
    assert "is missing" in status.error
    assert dispatched.clock.now_ms() - status.error_ms < 5_000, "it is tried again, and says when it was"
    assert (await dispatched.status(1)).error == ""


async def test_it_goes_on_behind_offsets_that_a_repair_gave_up() -> None:
    dispatched, functions = await start(6, [3])
    await dispatched.pass_time(10)
    dispatched.clock.advance(120)  # what was written in the last minute is skipped by a later repair
    repaired = await audit_store(dispatched.process()[0], repair=True, skip_damaged=True)
    assert repaired.skipped == ["orders-0 [3, 4)"]
    await dispatched.pass_time(30)
    assert list(chain.from_iterable(functions.offsets)) == [0, 1, 2, 4, 5]
    assert (await dispatched.status()).lag == 0


async def test_a_tumbling_window_stays_open_at_damage() -> None:
    """Records behind the damage may belong to the window."""
    dispatched, functions = await start(3, [2], tumbling_window_s=10)
    await dispatched.pass_time(60)
    assert functions.offsets == [[0, 1]]
    dispatched.clock.advance(120)
    await audit_store(dispatched.process()[0], repair=True, skip_damaged=True)
    await dispatched.pass_time(30)
    assert functions.called["f"] == 2, "the last call, of the window's end, has no records"
    assert (await dispatched.status()).lag == 0


@pytest.mark.parametrize("damaged", [[0], [1, 2], [0, 1, 2, 3, 4]], ids=str)
async def test_a_wake_up_passes_damage_before_the_newest_record(damaged: list[int]) -> None:
    dispatched, functions = await start(6, damaged, newest_only=True)
    await dispatched.work_off()
    assert functions.offsets == [[5]]
    assert (await dispatched.status()).lag == 0


async def test_a_wake_up_at_damage_has_the_newest_record_before_it_and_then_what_is_newer() -> None:
    dispatched, functions = await start(3, [2], newest_only=True)
    await dispatched.pass_time(5)
    assert functions.offsets == [[1]]
    assert "offset 2 of orders-0 cannot be read: " in (await dispatched.status()).error
    await produce(dispatched.engine, "orders", 0, batch([b"newer"]))
    await dispatched.pass_time(5)
    assert functions.offsets == [[1], [3]]


async def test_records_before_a_batch_that_cannot_be_decoded_are_called_with() -> None:
    """`record.validation=header` lets such a batch in."""
    functions = Functions()
    dispatched = Dispatched(lambda: functions)
    await dispatched.engine.topics.create("orders", 1, {"record.validation": "header"})
    await produce(dispatched.engine, "orders", 0, batch([b"a", b"b"]))
    await produce(dispatched.engine, "orders", 0, not_gzip())
    await dispatched.create(function=FUNCTION.format(name="f"), starting_position="TRIM_HORIZON")
    await dispatched.pass_time(5)
    assert functions.offsets == [[0, 1]]
    status = await dispatched.status()
    assert status.offset == 2
    assert status.error
