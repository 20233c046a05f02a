"""The stored outcomes of Apache Kafka's transforms: lines of JSON, compressed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "connect" / "transforms.jsonl.gz"


def write_golden(path: Path, outcomes: list[dict[str, Any]]) -> None:
    lines = "".join(json.dumps(each, separators=(",", ":"), sort_keys=True) + "\n" for each in outcomes)
    path.write_bytes(gzip.compress(lines.encode(), mtime=0))


def read_golden(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
