"""Runs of records and the walk that decodes each record agree on any batch, good or bad."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from odradek.errors import FormatError
from odradek.format.batch_header import parse_header
from odradek.format.record_encoder import RecordBatchBuilder
from odradek.format.validation import batches as validation
from odradek.format.validation.batches import TimestampBounds, check_records
from odradek.format.validation.runs import RUN_MAX, Passed, Wanted, pass_run
from odradek.format.varint import SMALL, decode_varint, encode_varlong
from odradek.limits import BATCH_HEADER_BYTES

from tests.support.kafka.poison import rebuilt

NOW_MS = 1_700_000_000_000
ANY_TIME = Wanted(-(1 << 62), 1 << 62, needs_key=False)

Shape = tuple[bytes | None, int | None, int]  # key, bytes of the value, timestamp delta
KEYS = st.sampled_from([None, b"", b"k", b"key-17", b"k" * 63, b"k" * 64])
VALUES = st.sampled_from([None, 0, 1, 40, 52, 53, 54, 60, 63, 64, 65, 100, 1_000, 9_000])
DELTAS = st.sampled_from([0, 1, 63, 64, 5_000, 8_192, 10**9, -1, -64, -65])
SHAPES = st.tuples(KEYS, VALUES, DELTAS)


def encoded(shapes: list[Shape], headers: list[tuple[str, bytes | None]] | None = None) -> bytes:
    builder = RecordBatchBuilder()
    for key, value_bytes, delta_ms in shapes:
        value = None if value_bytes is None else b"v" * value_bytes
        builder.append(NOW_MS + delta_ms, key, value, headers or [])
    return builder.build()


def verdict(batch: bytes, bounds: TimestampBounds, *, needs_keys: bool) -> tuple[object, ...]:
    header = parse_header(batch)
    check = check_records(batch, header, bounds, needs_keys=needs_keys)
    try:
        while True:
            next(check)
    except StopIteration as checked:
        return "good", checked.value
    except FormatError as error:
        return error.code, str(error), error.record_errors


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """A batch of records that are alike, but for a few; some of its bytes may have been replaced, lost or added."""
    shapes = [draw(SHAPES)] * draw(st.sampled_from([1, 7, 8, 63, 64, 65, 100, 300]))
    for at in draw(st.lists(st.integers(0, len(shapes) - 1), max_size=3)):
        shapes[at] = draw(SHAPES)
    good = encoded(shapes, draw(st.sampled_from([None, None, None, [("h", b"1")]])))
    body = bytearray(good[BATCH_HEADER_BYTES:])
    near = st.integers(0, min(len(body), 300) - 1)  # in the first records, where a byte is most likely not a value's
    for at in draw(st.lists(st.one_of(near, st.integers(0, len(body) - 1)), max_size=2)):
        body[at] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF, body[at] ^ 1, body[at] ^ 0x80, body[at] ^ 2]))
    cut, more = draw(st.sampled_from([0, 0, 0, 1, 5])), draw(st.sampled_from([b"", b"", b"", b"\0", b"\0" * 20]))
    count = len(shapes) + draw(st.sampled_from([0, 0, 0, 1, -1]))
    return rebuilt(good, bytes(body[: len(body) - cut]) + more, count=max(1, count))


def decoded_verdict(batch: bytes, bounds: TimestampBounds, *, needs_keys: bool) -> tuple[object, ...]:
    """The verdict of decoding each record."""
    with mock.patch.object(validation, "pass_run", lambda data, position, *arguments: Passed(0, position)):
        return verdict(batch, bounds, needs_keys=needs_keys)


def position_of(batch: bytes, index: int) -> int:
    """Return the position of the record of that index."""
    position = BATCH_HEADER_BYTES
    for _ in range(index):
        length, position = decode_varint(batch, position)
        position += length
    return position


@given(
    batch=batches(),
    bounds=st.sampled_from(
        [TimestampBounds(), TimestampBounds(NOW_MS - 64, NOW_MS + 63), TimestampBounds(NOW_MS, NOW_MS + 5_000)]
    ),
    needs_keys=st.booleans(),
)
@example(batch=encoded([(None, 0, 0), (None, None, 0)] * 20), bounds=TimestampBounds(), needs_keys=False)
def test_runs_say_what_decoding_says(batch: bytes, bounds: TimestampBounds, *, needs_keys: bool) -> None:
    actual = verdict(batch, bounds, needs_keys=needs_keys)
    assert actual == decoded_verdict(batch, bounds, needs_keys=needs_keys)


RUNS: dict[str, list[Shape]] = {
    "equal": [(None, 12, 0)] * 100,
    "equal, keys": [(b"key", 70, 70)] * 100,
    "empty values": [(b"longer keys", 0, 0)] * 100,
    "nulls": [(b"longer keys", None, 0)] * 100,
    "unequal": [(None, 10 + number % 30, number) for number in range(100)],
    "unequal, longer": [(None, 64 + number % 3, 0) for number in range(100)],
    "unequal, keys": [(b"k" * (number % 9), number % 13, 100 + number) for number in range(100)],
    "some without keys": [(b"k" if number % 5 else None, 1 + number % 2, -100 - number) for number in range(100)],
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("index", [10, 70, 99])
def test_no_byte_of_a_record_in_a_run_is_overlooked(name: str, index: int) -> None:
    good = encoded(RUNS[name])
    start, stop = (position_of(good, number) for number in (index, index + 1))
    for at in range(start, min(stop, start + 30)) if stop - start < 60 else (*range(start, start + 12), stop - 1):
        for byte in {good[at] ^ 1 << bit for bit in range(8)} | {0, 1, 2, 0x80, 0x81}:
            batch = rebuilt(good, good[BATCH_HEADER_BYTES:at] + bytes((byte,)) + good[at + 1 :])
            actual = verdict(batch, TimestampBounds(), needs_keys=False)
            assert actual == decoded_verdict(batch, TimestampBounds(), needs_keys=False), (at - start, byte)


@pytest.mark.parametrize("name", RUNS)
def test_what_is_wrong_with_every_record_is_not_overlooked(name: str) -> None:
    good = encoded(RUNS[name])
    positions = [position_of(good, index) for index in range(len(RUNS[name]))]
    for at in range(6):
        for flipped in (0x01, 0x02, 0x80, 0x81):
            body = bytearray(good)
            for position in positions:
                body[position + at] ^= flipped
            batch = rebuilt(good, bytes(body[BATCH_HEADER_BYTES:]))
            actual = verdict(batch, TimestampBounds(), needs_keys=False)
            assert actual == decoded_verdict(batch, TimestampBounds(), needs_keys=False), (at, flipped)


def test_a_length_of_three_bytes_is_not_taken_for_one_of_two() -> None:
    first = encoded([(None, 100, 0)])
    records = first[BATCH_HEADER_BYTES:]
    for index in range(1, 20):
        # As two bytes, f0 80 says 8,248, and the rest is as it must be; but the length goes on in the attributes.
        value = encode_varlong(8_240)
        records += b"\xf0\x80" + bytes((0, 0, index << 1, 1)) + value + b"v" * 8_240 + b"\0"
    batch = rebuilt(first, records, count=20)
    assert decoded_verdict(batch, TimestampBounds(), needs_keys=False)[0] != "good"
    assert verdict(batch, TimestampBounds(), needs_keys=False)[0] != "good"


def test_a_length_that_goes_on_in_the_attributes_is_not_cut_after_three_bytes() -> None:
    records = b""
    for index in range(20):
        # As three bytes, d6 81 80 says 107, which is right; a varint ends with the zero behind them.
        records += b"\xd6\x81\x80" + bytes((0, 0, index << 1, 1)) + encode_varlong(100) + b"v" * 100 + b"\0"
    batch = rebuilt(encoded([(None, 100, 0)]), records, count=20)
    assert decoded_verdict(batch, TimestampBounds(), needs_keys=False)[0] != "good"
    assert verdict(batch, TimestampBounds(), needs_keys=False)[0] != "good"


@pytest.mark.parametrize("beyond", range(5, 12))
def test_a_key_does_not_reach_into_the_next_record(beyond: int) -> None:
    good = encoded([(b"k" * 8, 40 + number % 3, 0) for number in range(60)])
    start, end = position_of(good, 50), position_of(good, 51)
    key_length = start + 4  # after a byte each of length, attributes and two deltas
    for value_bytes in (*range(64, 100), *range(len(SMALL) - 100, len(SMALL))):
        body = bytearray(good)
        body[key_length] = (end + beyond - key_length - 1) << 1
        # In the next record's key is what would be the length of a value; a table of lengths ends with some of these.
        body[end + beyond : end + beyond + 2] = encode_varlong(value_bytes)
        batch = rebuilt(good, bytes(body[BATCH_HEADER_BYTES:]))
        actual = verdict(batch, TimestampBounds(), needs_keys=False)
        assert actual[0] != "good"
        assert actual == decoded_verdict(batch, TimestampBounds(), needs_keys=False), value_bytes


@pytest.mark.parametrize("name", RUNS)
def test_bounds_and_missing_keys_are_seen_in_runs(name: str) -> None:
    batch = encoded(RUNS[name])
    for beyond_ms in (63, 64, 8_191, 8_192):
        for bounds in (
            TimestampBounds(NOW_MS - beyond_ms, NOW_MS + (1 << 40)),
            TimestampBounds(NOW_MS - (1 << 40), NOW_MS + beyond_ms),
        ):
            for needs_keys in (False, True):
                actual = verdict(batch, bounds, needs_keys=needs_keys)
                assert actual == decoded_verdict(batch, bounds, needs_keys=needs_keys)


@pytest.mark.parametrize("delta_ms", [63, -64, 64, -65, 8_191, -8_192])
@pytest.mark.parametrize("spare_ms", [0, -1])
def test_the_last_timestamp_within_bounds_passes_and_the_next_one_does_not(delta_ms: int, spare_ms: int) -> None:
    batch = encoded([(None, 30, 0)] + [(None, 30, delta_ms)] * 50)  # the first one's time is the base
    bounds = (
        TimestampBounds(0, NOW_MS + delta_ms + spare_ms)
        if delta_ms > 0
        else TimestampBounds(NOW_MS + delta_ms - spare_ms, 1 << 45)
    )
    actual = verdict(batch, bounds, needs_keys=False)
    assert (actual[0] == "good") == (spare_ms == 0)
    assert actual == decoded_verdict(batch, bounds, needs_keys=False)


@pytest.mark.parametrize(
    "shapes",
    [
        [(None, 1_000, 0)] * 1_000,
        [(b"%08d" % number, 100, number // 100) for number in range(1_000)],
        [(None, 10_000, 5)] * 100,
        [(None, 100 + number % 700, 0) for number in range(1_000)],
        [(b"k" * (number % 60), 20 + number % 7, -3) for number in range(60)],
        [(b"%d" % number, 2_000 + number, 64 + number) for number in range(1_000)],
        [(None, 5, 0)] * 9_000,
    ],
    ids=["equal", "equal with keys", "large", "unequal", "short with keys", "unequal with keys", "many"],
)
def test_usual_records_need_no_decoding(shapes: list[Shape]) -> None:
    data = encoded(shapes)[BATCH_HEADER_BYTES:]
    index = position = 0
    while index < len(shapes) - 20:  # the last ones of unequal size are decoded
        passed, position, largest_ms = pass_run(data, position, index, len(shapes), ANY_TIME, RUN_MAX)
        assert passed
        first_ms = shapes[0][2]
        assert largest_ms == max(delta_ms - first_ms for _, _, delta_ms in shapes[index : index + passed])
        index += passed
