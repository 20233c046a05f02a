"""The names of the columns of decoded records, and the bound of their timestamps, without Arrow (schema.py)."""

from __future__ import annotations

COLUMNS: tuple[str, ...] = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
TIMESTAMP_MS_MAX = (2**63 - 1) // 1000
