"""The amount that a dispatcher decodes at once, and batches that are too large for it."""

from __future__ import annotations

import json

import pytest
from odradek.errors import ErrorCode, FormatError
from odradek.format.record_batch import RecordBatchBuilder, decode_batches
from odradek.model.record import CompressionType
from odradek.triggers import reading
from odradek.triggers.reading import FetchedBatches, Part

from tests.support.engine import produce
from tests.support.services.dispatched import Dispatched
from tests.unit.triggers.test_dispatcher import FUNCTION, Functions

KIB = 1024


def zeros(count: int, size: int, base_offset: int = 0) -> bytes:
    """A batch that is a thousandth of its records."""
    builder = RecordBatchBuilder(CompressionType.ZSTD)
    for _ in range(count):
        builder.append(0, None, bytes(size))
    return builder.build(base_offset=base_offset)


def parts(data: bytes, offset: int, rows_max: int = 10_000) -> list[Part]:
    batches = FetchedBatches(data, offset)
    parts_read = []
    while not batches.is_done:
        parts_read.append(batches.next_part(rows_max))
        assert batches.end == parts_read[-1].end
    return parts_read


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PART_BYTES", 64 * KIB)
    monkeypatch.setattr(reading, "TRIGGER_BATCH_BYTES_MAX", 512 * KIB)


@pytest.mark.parametrize("offset", [0, 1, 37, 99, 100, 163])
@pytest.mark.parametrize("rows_max", [1, 7, 10_000])
def test_parts_have_each_record_once_and_few_bytes(offset: int, rows_max: int) -> None:
    data = zeros(100, 4 * KIB) + zeros(64, 4 * KIB, 100)
    parts_read = parts(data, offset, rows_max)
    records = [record for part in parts_read for record in part.records]
    assert records == [record for record in decode_batches(data) if record.offset >= offset]
    assert all(part.records and part.end == part.records[-1].offset + 1 for part in parts_read)
    assert max(len(part.records) for part in parts_read) <= rows_max
    assert (
        max(sum(len(record.value or b"") for record in part.records) for part in parts_read)
        <= reading.PART_BYTES + 4 * KIB
    )


def test_a_batch_that_is_too_large_is_refused_behind_those_before_it() -> None:
    data = zeros(3, KIB) + zeros(2, 400 * KIB, 3) + zeros(3, KIB, 5)
    before, refused, behind = parts(data, 0)
    assert [record.offset for record in before.records] == [0, 1, 2]
    assert (refused.records, refused.end) == ([], 5)
    assert refused.refused is not None
    assert refused.refused.record.offset == 3
    assert "offsets 3 to 4: the batch decompresses to more than 524288 bytes" in refused.refused.reason
    assert [record.offset for record in behind.records] == [5, 6, 7]


def test_a_broken_batch_is_an_error() -> None:
    data = bytearray(zeros(3, KIB))
    data[-1] ^= 1
    with pytest.raises(FormatError) as caught:
        parts(bytes(data), 0)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


class Kept(Functions):
    """Functions, and a queue for what is given up."""

    def __init__(self) -> None:
        super().__init__()
        self.given_up: list[dict[str, object]] = []

    async def send_message(self, queue_url: str, body: str) -> None:
        self.given_up.append(json.loads(body))


async def test_a_bomb_goes_to_the_failure_destination_and_the_others_to_the_function() -> None:
    functions = Kept()
    dispatched = Dispatched(lambda: functions)
    await dispatched.engine.topics.create("orders", 1)
    await dispatched.engine.topics.create("failed", 1)
    await dispatched.create(function=FUNCTION.format(name="f"), on_failure="sqs:https://sqs.eu-west-1.amazonaws.com/123456789012/q",
                            starting_position="TRIM_HORIZON")  # fmt: skip
    for data in (zeros(3, KIB), zeros(4, 400 * KIB), zeros(40, 4 * KIB), zeros(2, 400 * KIB), zeros(1, KIB)):
        await produce(dispatched.engine, "orders", 0, data)
    await dispatched.work_off()
    offsets = [offset for call in functions.offsets for offset in call]
    assert offsets == [0, 1, 2, *range(7, 47), 49]
    assert max(map(len, functions.offsets)) < 40, "a batch is called with in parts"
    assert [document["KafkaBatchInfo"]["firstOffset"] for document in functions.given_up] == [3, 47]  # type: ignore[index]
    assert [document["requestContext"]["condition"] for document in functions.given_up] == ["BatchTooLarge"] * 2  # type: ignore[index]
    status = await dispatched.status()
    assert (status.lag, status.given_up) == (0, 2)


async def test_a_bomb_waits_while_its_destination_is_away() -> None:
    functions = Functions()
    dispatched = Dispatched(lambda: functions)
    await dispatched.engine.topics.create("orders", 1)
    await dispatched.create(function=FUNCTION.format(name="f"), on_failure="topic:failed")
    await dispatched.work_off()
    for data in (zeros(4, 400 * KIB), zeros(1, KIB)):
        await produce(dispatched.engine, "orders", 0, data)
    await dispatched.work_off()
    assert functions.offsets == []
    await dispatched.engine.topics.create("failed", 1)
    await dispatched.pass_time(300)
    assert functions.offsets == [[4]]
