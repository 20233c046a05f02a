"""Object keys that every backend accepts: valid in S3 and in a file system, and inside the store's folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from odradek.errors import StoreRejected
from odradek.limits import OBJECT_KEY_BYTES_MAX, OBJECT_PUT_BYTES_MAX
from odradek.model.log import Buffer

SEGMENT_BYTES_MAX: Final = 255  # the longest file name


def check_object_key(key: str) -> str:
    """Return the key.

    Raises ValueError for a key that is empty or absolute, has `.`, `..` or empty steps, or NUL bytes; StoreRejected for
    a key that is too long.
    """
    _check_text(key)
    if not key or any(step in ("", ".", "..") or len(step.encode()) > SEGMENT_BYTES_MAX for step in key.split("/")):
        raise ValueError(f"not an object key: {key!r:.80}")
    return key


def check_upload(key: str, parts: Sequence[Buffer], prefix: str = "") -> None:
    """Raise as `check_object_key`, and StoreRejected for an upload that is too large for one PutObject.

    Args:
        prefix: the store's prefix of the key.
    """
    check_object_key(key)
    if len(prefix.encode()) + len(key.encode()) > OBJECT_KEY_BYTES_MAX:
        raise StoreRejected(f"an object key has at most {OBJECT_KEY_BYTES_MAX} bytes: {key!r:.80}")
    if (size := sum(map(len, parts))) > OBJECT_PUT_BYTES_MAX:
        raise StoreRejected(f"one upload has at most {OBJECT_PUT_BYTES_MAX} bytes, not {size}: {key!r:.80}")


def check_object_prefix(prefix: str) -> str:
    """Return the prefix: the beginning of a key, or empty. Raises ValueError as `check_object_key`."""
    _check_text(prefix)
    steps = prefix.split("/")
    if any(step in ("", ".", "..") for step in steps[:-1]) or steps[-1] == "..":
        raise ValueError(f"invalid prefix of object keys: {prefix!r:.80}")
    return prefix


def check_range(start: int, length: int) -> None:
    """Raise ValueError for an invalid range."""
    if start < 0 or length < 0:
        raise ValueError(f"invalid range: start {start}, length {length}")


def check_limit(limit: int | None) -> None:
    """Raise ValueError for a negative limit."""
    if limit is not None and limit < 0:
        raise ValueError(f"a limit cannot be negative: {limit}")


def _check_text(key: str) -> None:
    try:
        encoded = key.encode()
    except UnicodeEncodeError:
        raise ValueError("an object key with lone surrogates cannot be stored") from None
    if b"\0" in encoded or "\\" in key:
        raise ValueError(f"not an object key: {key!r:.80}")
    if len(encoded) > OBJECT_KEY_BYTES_MAX:
        raise StoreRejected(f"an object key has at most {OBJECT_KEY_BYTES_MAX} bytes: {key!r:.80}")
