"""Record batches whose CRC is right and whose inside is not: what a broken producer may send."""

from __future__ import annotations

from odradek.format.batch_header import CRC_FIELD, CRC_START, HEADER
from odradek.format.crc import crc32c
from odradek.limits import BATCH_HEADER_BYTES
from odradek.model.record import CompressionType

from tests.support.engine import batch

_LENGTH, _ATTRIBUTES, _LAST_DELTA, _BASE_MS, _MAX_MS, _COUNT = 1, 5, 6, 7, 8, 12


def rebuilt(
    whole: bytes,
    body: bytes | None = None,
    *,
    compression: CompressionType | None = None,
    count: int | None = None,
    base_ms: int | None = None,
    max_ms: int | None = None,
) -> bytes:
    """The batch with another body and other fields of its header; length and CRC fit."""
    fields = list(HEADER.unpack_from(whole))
    body = whole[BATCH_HEADER_BYTES:] if body is None else body
    fields[_LENGTH] = BATCH_HEADER_BYTES - 12 + len(body)
    for at, value in ((_ATTRIBUTES, compression), (_COUNT, count), (_BASE_MS, base_ms), (_MAX_MS, max_ms)):
        if value is not None:
            fields[at] = int(value)
    if count is not None:
        fields[_LAST_DELTA] = count - 1
    out = bytearray(HEADER.pack(*fields) + body)
    CRC_FIELD.pack_into(out, 17, crc32c(memoryview(out)[CRC_START:]))
    return bytes(out)


def garbage(count: int = 3, compression: CompressionType = CompressionType.ZSTD) -> bytes:
    """So many records of which none can be read: noise under a compression mark."""
    return rebuilt(batch([b"x"]), b"\x17" * 64, compression=compression, count=count)
