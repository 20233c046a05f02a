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


def test_a_large_frame_waits_for_room_and_small_ones_before_it_do_not() -> None:
    asked: list[int] = []

    def may_begin(size: int) -> bool:
        asked.append(size)
        return len(asked) > 1

    reader = FrameReader(1_000_000, may_begin)
    data = (2).to_bytes(4, "big") + b"ab" + (200_000).to_bytes(4, "big") + b"x" * 1_000
    assert feed(reader, data, lambda: len(data)) == [b"ab"]
    assert reader.blocked
    assert reader.reserved_bytes == 0
    assert list(reader.resume()) == []
    assert (reader.blocked, reader.reserved_bytes, asked) == (False, 200_000, [200_000, 200_000])
    assert feed(reader, b"x" * 199_000, lambda: 50_000) == [b"x" * 200_000]
