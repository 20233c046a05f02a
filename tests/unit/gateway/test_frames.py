"""Bytes to frames, however they are cut."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from odradek.errors import FormatError
from odradek.gateway.frames import STAGING_BYTES, FrameReader


def feed(reader: FrameReader, data: bytes, sizes: Callable[[], int]) -> list[bytes]:
    frames: list[bytes] = []
    at = 0
    while at < len(data):
        free = reader.free()
        count = min(len(free), sizes(), len(data) - at)
        free[:count] = data[at : at + count]
        frames += [bytes(frame) for frame in reader.received(count)]
        at += count
    return frames


@pytest.mark.parametrize("seed", range(20))
def test_frames_come_out_as_they_went_in(seed: int) -> None:
    chance = random.Random(seed)
    sent = [
        chance.randbytes(chance.choice([0, 1, 5, 100, STAGING_BYTES - 4, STAGING_BYTES - 3, STAGING_BYTES, 300_000]))
        for _ in range(25)
    ]
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in sent)
    reader = FrameReader(1_000_000, lambda size: True)
    assert feed(reader, stream, lambda: chance.choice([1, 3, 4, 1_000, 70_000])) == sent


@pytest.mark.parametrize("head", [b"\x00\x0f\x42\x41", b"\xff\xff\xff\xff", b"GET "])
def test_a_length_that_cannot_be_is_refused(head: bytes) -> None:
    with pytest.raises(FormatError):
        feed(FrameReader(1_000_000, lambda size: True), head, lambda: 4)


def test_room_for_a_large_frame_is_asked_for_as_it_arrives() -> None:
    sizes_asked: list[int] = []
    grants = [True, True, False, True, True, True]

    def may_hold(size: int) -> bool:
        sizes_asked.append(size)
        return grants.pop(0)

    reader = FrameReader(100_000_000, may_hold)
    size = 400_000
    sent = random.Random(1).randbytes(size)
    assert feed(reader, size.to_bytes(4, "big") + sent[:60_000], lambda: 70_000) == []
    assert (reader.reserved_bytes, reader.partial_bytes) == (2 * STAGING_BYTES, 60_004)  # of 400,000
    assert feed(reader, sent[60_000:131_072], lambda: 70_000) == []
    assert reader.reserved_bytes == 4 * STAGING_BYTES
    assert feed(reader, sent[131_072:262_144], lambda: 70_000) == []
    assert reader.blocked
    assert reader.reserved_bytes == 4 * STAGING_BYTES
    assert list(reader.resume()) == []
    assert (reader.blocked, reader.reserved_bytes) == (False, size)
    assert feed(reader, sent[262_144:], lambda: 70_000) == [sent]
    assert sum(sizes_asked) - sizes_asked[2] == size


def test_a_small_frame_waits_for_room_too() -> None:
    grants = [True, False, True]
    reader = FrameReader(1_000_000, lambda size: grants.pop(0))
    data = (2).to_bytes(4, "big") + b"ab"
    assert feed(reader, data * 2, lambda: 100) == [b"ab"]
    assert reader.blocked
    assert [bytes(frame) for frame in reader.resume()] == [b"ab"]


def test_a_large_frame_waits_for_room_and_small_ones_before_it_do_not() -> None:
    sizes_asked: list[int] = []

    def may_begin(size: int) -> bool:
        sizes_asked.append(size)
        return len(sizes_asked) != 2

    reader = FrameReader(1_000_000, may_begin)
    data = (2).to_bytes(4, "big") + b"ab" + (200_000).to_bytes(4, "big") + b"x" * 1_000
    assert feed(reader, data, lambda: len(data)) == [b"ab"]
    assert reader.blocked
    assert reader.reserved_bytes == 0
    assert list(reader.resume()) == []
    assert (reader.blocked, reader.reserved_bytes, sizes_asked) == (False, 131_072, [2, 131_072, 131_072])
    assert feed(reader, b"x" * 199_000, lambda: 50_000) == [b"x" * 200_000]
