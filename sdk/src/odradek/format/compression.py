"""The four compression types of Kafka's record batches, with a bound on the output before it is produced.

    none     the bytes themselves
    gzip     one or more members (RFC 1952)
    snappy   xerial framing: 82 "SNAPPY" 00, version, compatible version, then blocks of (length, raw snappy);
             also read without the frame, as librdkafka writes it
    lz4      LZ4 frames with independent blocks: Kafka's Java reader refuses linked ones
    zstd     one or more frames (RFC 8878)

A decompression bomb is refused without inflating it: the library writes into a buffer of ours, never larger than the
limit, and stops when it is full.

Sources: KIP-110 (zstd), KIP-390 (levels), the snappy-java stream format.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import cramjam

from odradek.errors import ErrorCode, FormatError
from odradek.limits import DECOMPRESSED_BATCH_BYTES_MAX
from odradek.model.log import Buffer
from odradek.model.record import CompressionType

# KIP-390's levels: minimum, maximum, and our default, a balance of speed and ratio.
LEVELS: dict[CompressionType, tuple[int, int, int]] = {
    CompressionType.GZIP: (1, 9, 1),
    CompressionType.LZ4: (1, 12, 1),
    CompressionType.ZSTD: (-7, 22, 1),
}

_LZ4_MAGIC, _LZ4_INDEPENDENT = b"\x04\x22\x4d\x18", 0x20
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = struct.Struct(
    ">"
    "8s"  # magic
    "i"  # version
    "i"  # oldest version that can read this
)
_XERIAL_BLOCK_BYTES = 32 * 1024  # of input a block, as snappy-java's default
_BLOCK_LENGTH = struct.Struct(">i")

# A snappy element of 3 bytes yields at most 64: a preamble that promises a higher ratio is wrong.
_SNAPPY_RATIO_MAX = 22
_GROWTH = 8  # first guess of the ratio, and the factor by which a full buffer grows
_BUFFER_BYTES_MIN = 64 * 1024
_BUFFER_FULL = "failed to write whole buffer"  # the library's message if the output does not fit


def compress(compression_type: CompressionType, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data` as Kafka clients expect it.

    Args:
        level: as in KIP-390 (gzip 1-9, lz4 1-12, zstd -7 to 22); None takes our default; ignored for none and snappy.

    Raises FormatError(INVALID_CONFIG) for a level outside the range.
    """
    match compression_type:
        case CompressionType.NONE:
            return bytes(data)
        case CompressionType.SNAPPY:
            return _compress_snappy(data)
        case CompressionType.GZIP:
            return bytes(cramjam.gzip.compress(data, _checked_level(compression_type, level)))
        case CompressionType.ZSTD:
            return bytes(cramjam.zstd.compress(data, _checked_level(compression_type, level)))
        case CompressionType.LZ4:
            compressor = cramjam.lz4.Compressor(
                level=_checked_level(compression_type, level), content_checksum=False, block_linked=False
            )
            compressor.compress(bytes(data))  # refuses other buffers
            return bytes(compressor.finish())


def decompress(compression_type: int, data: Buffer, *, limit: int = DECOMPRESSED_BATCH_BYTES_MAX) -> bytes:
    """Decompress to at most `limit` bytes.

    Raises FormatError: UNSUPPORTED_COMPRESSION_TYPE for an unknown code, MESSAGE_TOO_LARGE if the output would be
    larger than `limit`, CORRUPT_MESSAGE for any other error in the bytes.
    """
    match compression_type:
        case CompressionType.NONE:
            if len(data) > limit:
                raise _too_large(limit)
            return bytes(data)
        case CompressionType.SNAPPY:
            return _decompress_snappy(memoryview(data), limit)
        case CompressionType.GZIP:
            return _decompress_bounded(cramjam.gzip.decompress_into, data, limit)
        case CompressionType.ZSTD:
            return _decompress_bounded(cramjam.zstd.decompress_into, data, limit)
        case CompressionType.LZ4:
            return _decompress_bounded(cramjam.lz4.decompress_into, data, limit)
        case _:
            raise FormatError(f"unknown compression code {compression_type}", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def has_linked_blocks(data: Buffer) -> bool:
    """Return True for an LZ4 frame whose blocks refer to each other, which Kafka's Java reader refuses.

    Bit 5 of the byte after the magic number says that blocks are independent (LZ4 frame format 1.6, FLG).
    """
    view = memoryview(data)
    return len(view) > 4 and bytes(view[:4]) == _LZ4_MAGIC and not view[4] & _LZ4_INDEPENDENT


def _checked_level(compression_type: CompressionType, level: int | None) -> int:
    lowest, highest, default = LEVELS[compression_type]
    if level is None:
        return default
    if not lowest <= level <= highest:
        name = compression_type.name.lower()
        raise FormatError(f"{name} level must be {lowest} to {highest}, not {level}", ErrorCode.INVALID_CONFIG)
    return level


def _decompress_bounded(decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, limit: int) -> bytes:
    if not len(data):
        raise FormatError("the compressed batch is empty")
    capacity = min(limit, max(_BUFFER_BYTES_MIN, _GROWTH * len(data)))
    while True:
        out = bytearray(capacity)
        try:
            length = decompress_into(data, out)
        except Exception as error:
            if _BUFFER_FULL not in str(error):
                raise FormatError(f"the batch cannot be decompressed: {error}") from error
        else:
            return bytes(memoryview(out)[:length])
        if capacity == limit:
            raise _too_large(limit)
        capacity = min(limit, capacity * _GROWTH)


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1)]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(view: memoryview, limit: int) -> bytes:
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, limit)
    parts: list[bytes] = []
    position = 0
    while position < len(view):
        # Concatenated streams repeat the header.
        if view[position : position + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            position += _XERIAL_HEADER.size
            if position > len(view):
                raise FormatError("a snappy header is truncated")
            continue
        if position + _BLOCK_LENGTH.size > len(view):
            raise FormatError("a snappy block is truncated")
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        position += _BLOCK_LENGTH.size
        if length < 1 or length > len(view) - position:
            raise FormatError("a snappy block is truncated")
        part = _decompress_snappy_block(view[position : position + length], limit)
        limit -= len(part)
        parts.append(part)
        position += length
    return b"".join(parts)


def _decompress_snappy_block(view: memoryview, limit: int) -> bytes:
    try:
        length = cramjam.snappy.decompress_raw_len(view)
        if length > limit:
            raise _too_large(limit)
        if length > _SNAPPY_RATIO_MAX * len(view):
            raise FormatError("a snappy block announces more bytes than it can hold")
        return bytes(cramjam.snappy.decompress_raw(view))
    except FormatError:
        raise
    except Exception as error:
        raise FormatError(f"the batch cannot be decompressed: {error}") from error


def _too_large(limit: int) -> FormatError:
    return FormatError(f"the batch decompresses to more than {limit} bytes", ErrorCode.MESSAGE_TOO_LARGE)
