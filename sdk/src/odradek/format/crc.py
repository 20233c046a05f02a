"""CRC-32C (Castagnoli, RFC 3720 appendix B.4): the checksum of record batches, segments and indexes.

The library uses the processor's instruction; a megabyte costs some tens of microseconds. Several buffers have the CRC
of their concatenation, without being joined.
"""

from __future__ import annotations

from crc32c import crc32c as _crc32c

from odradek.model.log import Buffer


def crc32c(*buffers: Buffer, initial: int = 0) -> int:
    """Return the checksum of the buffers in order, 0 to 2^32-1; `initial` is the checksum of the bytes before them."""
    crc = initial
    for buffer in buffers:
        crc = _crc32c(buffer, crc)
    return int(crc)
