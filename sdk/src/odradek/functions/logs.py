"""The library's `logging` records as JSON lines beside those of the invocations.

    logger.warning("%s failed", name)                       {"level", "message", "logger"}
    logger.info("audit %(audit)s", {"audit": ..., ...})     the same, with every entry of the mapping as a field

A mapping as the only argument is logging's way to name the parts of a message.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from odradek.functions.telemetry import WriteLine


class JsonLines(logging.Handler):
    """Writes each record as one JSON object; the stack trace of an exception is a field of it."""

    def __init__(self, write_line: WriteLine) -> None:
        super().__init__()
        self._write_line = write_line

    def emit(self, record: logging.LogRecord) -> None:
        line: dict[str, Any] = {"level": record.levelname, "message": record.getMessage(), "logger": record.name}
        if isinstance(record.args, Mapping):
            line = {**record.args, **line}
        if record.exc_info:
            line["stack"] = (self.formatter or logging.Formatter()).formatException(record.exc_info)
        self._write_line(json.dumps(line, separators=(",", ":"), default=str))


def log_as_json(write_line: WriteLine) -> None:
    """Send the library's records, and only those, to `write_line`."""
    logger = logging.getLogger("odradek")
    logger.handlers[:] = [JsonLines(write_line)]
    logger.propagate = False
    logging.getLogger("odradek.audit").setLevel(logging.INFO)  # administrative requests are always logged
