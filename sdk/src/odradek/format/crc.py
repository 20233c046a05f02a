"""CRC-32C (Castagnoli, RFC 3720 appendix B.4): the checksum of record batches, segments and indexes.

The library uses the processor's instruction; a megabyte costs some tens of microseconds. The buffers are checked as if
they were joined, without joining them.
"""

from __future__ import annotations

from crc32c import crc32c as _crc32c

from odradek.model.log import Buffer


def crc32c(*buffers: Buffer, initial: int = 0) -> int:
    """The checksum of the buffers one after the other, 0 to 2^32-1; `initial` is that of what came before them."""
    crc = initial
    for buffer in buffers:
        crc = _crc32c(buffer, crc)
    return int(crc)
