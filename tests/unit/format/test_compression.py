"""Every compression as Kafka's clients write and read it, and a bomb that is refused before it goes off."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib
from collections.abc import Callable

import cramjam
import pytest
from odradek.errors import ErrorCode, FormatError
from odradek.format.compression import LEVELS, compress, decompress
from odradek.model.record import CompressionType

TEXT = b'{"origin":"EWR","delay":17}' * 5_000
REAL = [codec for codec in CompressionType if codec is not CompressionType.NONE]


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("data", [b"x", TEXT, bytes(range(256)) * 300], ids=["one byte", "text", "bytes"])
def test_round_trip(codec: CompressionType, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed) == data
    assert decompress(codec, memoryview(bytearray(packed))) == data
    assert compress(codec, bytearray(data)) == compress(codec, memoryview(data)) == packed


@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.LZ4, CompressionType.ZSTD])
def test_levels_are_kafkas(codec: CompressionType) -> None:
    lowest, highest, default = LEVELS[codec]
    assert lowest <= default <= highest
    for level in {lowest, default, min(highest, 9)}:
        assert decompress(codec, compress(codec, TEXT, level)) == TEXT
    for level in (lowest - 1, highest + 1):
        with pytest.raises(FormatError) as caught:
            compress(codec, TEXT, level)
        assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("code", [5, 6, 7, -1])
def test_an_unknown_code_is_refused(code: int) -> None:
    with pytest.raises(FormatError) as caught:
        decompress(code, b"x")
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize(
    "codec", [CompressionType.GZIP, CompressionType.LZ4, CompressionType.ZSTD, CompressionType.SNAPPY]
)
def test_frames_that_follow_each_other_are_one_body(codec: CompressionType) -> None:
    assert decompress(codec, compress(codec, TEXT) + compress(codec, b"more")) == TEXT + b"more"


def test_lz4_blocks_are_independent_for_kafkas_java_reader() -> None:
    packed = compress(CompressionType.LZ4, TEXT)
    assert packed[:4] == b"\x04\x22\x4d\x18"
    version, is_independent = packed[4] >> 6, packed[4] >> 5 & 1
    assert (version, is_independent) == (1, 1)


def test_snappy_is_read_raw_and_written_in_xerials_frame() -> None:
    packed = compress(CompressionType.SNAPPY, TEXT)
    assert packed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    assert decompress(CompressionType.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_gzip_of_the_standard_library_is_read() -> None:
    assert decompress(CompressionType.GZIP, gzip.compress(TEXT, 9)) == TEXT
    assert zlib.decompress(compress(CompressionType.GZIP, TEXT), 31) == TEXT


@pytest.mark.parametrize("codec", REAL)
def test_what_is_cut_off_or_damaged_is_corrupt(codec: CompressionType) -> None:
    packed = compress(codec, TEXT)
    for bad in (b"", packed[: len(packed) // 2], packed[:5], b"\x00" + packed, b"nonsense" * 9):
        with pytest.raises(FormatError) as caught:
            decompress(codec, bad)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", CompressionType)
def test_the_limit_is_inclusive(codec: CompressionType) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, limit=len(TEXT)) == TEXT
    with pytest.raises(FormatError) as caught:
        decompress(codec, packed, limit=len(TEXT) - 1)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def _zeros(compressor: Callable[[bytes], bytes]) -> bytes:
    return bytes(compressor(bytes(64 << 20)))


@pytest.mark.parametrize(
    ("codec", "bomb"),
    [
        (CompressionType.GZIP, lambda: _zeros(cramjam.gzip.compress)),
        (CompressionType.LZ4, lambda: compress(CompressionType.LZ4, bytes(64 << 20))),
        (CompressionType.ZSTD, lambda: _zeros(cramjam.zstd.compress)),
        (CompressionType.SNAPPY, lambda: _zeros(cramjam.snappy.compress_raw)),
        (CompressionType.SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + b"\x00a"),  # a preamble that promises 4 GiB
    ],
    ids=["gzip", "lz4", "zstd", "snappy", "snappy preamble"],
)
def test_a_bomb_is_refused_without_being_inflated(codec: CompressionType, bomb: Callable[[], bytes]) -> None:
    data = bomb()
    tracemalloc.start()
    try:
        with pytest.raises(FormatError) as caught:
            decompress(codec, data, limit=1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert peak < 4 << 20, "the output buffer must stay near the limit"


def test_a_snappy_preamble_that_lies_is_refused_before_memory_is_taken() -> None:
    lie = b"\x80\x80\x80\x40" + b"\x00a"  # promises 128 MiB of which two bytes are there
    tracemalloc.start()
    try:
        with pytest.raises(FormatError) as caught:
            decompress(CompressionType.SNAPPY, lie)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert peak < 1 << 20
