"""The end of SQLite's write-ahead log, which SQLite reads up to the last whole transaction without a word.

    header    32 bytes: ... page size at 8, salts at 16 ...
    frame     24 bytes: ... salts at 8 ..., then a page

A frame is part of the log if its salts are those of the header; what is after the last one is of an earlier round.
Source: sqlite.org/fileformat2.html, "The Write-Ahead Log".
"""

from __future__ import annotations

import logging
from pathlib import Path

_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_SALTS = slice(16, 24)  # of the header
_FRAME_SALTS = slice(8, 16)
_log = logging.getLogger("odradek.store")


def torn_bytes(path: Path) -> int:
    """Return the bytes of a frame that the write-ahead log of a database ends within; 0 if it ends with a whole one."""
    try:
        with path.with_name(f"{path.name}-wal").open("rb") as log:
            size = log.seek(0, 2)
            log.seek(0)
            header = log.read(_HEADER_BYTES)
            page_bytes = int.from_bytes(header[8:12], "big")
            if len(header) < _HEADER_BYTES or not page_bytes:
                return size
            frame_bytes = _FRAME_HEADER_BYTES + page_bytes
            torn = (size - _HEADER_BYTES) % frame_bytes
            if not torn:
                return 0
            # The salts of the cut frame, or of the one before it where the cut is before its salts.
            start = size - torn if torn >= _FRAME_SALTS.stop else size - torn - frame_bytes
            log.seek(max(start, _HEADER_BYTES))
            frame = log.read(_FRAME_SALTS.stop)
            return torn if start < _HEADER_BYTES or frame[_FRAME_SALTS] == header[_SALTS] else 0
    except FileNotFoundError:
        return 0


def warn_of_torn_log(path: Path) -> None:
    """Log a warning if the write-ahead log ends within a frame. Call it before SQLite opens the database."""
    if torn := torn_bytes(path):
        _log.warning(
            "the write-ahead log of %s ends within a frame: its last %d bytes are ignored. After a power loss that is "
            "a write that nobody was told of. If the file was copied, restored or cut, acknowledged writes may be "
            "missing: restore a backup, or run `odradek audit`",
            path,
            torn,
        )
