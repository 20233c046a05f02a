"""What was changed through this console: the last lines in memory, all of them in a file if one is named.

    {"time": "2026-11-22T19:30:00.000+00:00", "action": "delete topic", "what": "orders", "outcome": "done"}

A line names things; it has no value of a record, no password and no configuration's value. The service writes its own
audit log, too (docs/SECURITY.md), with the principal whose credentials the console has.
"""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path

from odradek.errors import ErrorCode, KafkaError
from odradek.operations.records.export import iso_time
from odradek.ports.clock import Clock

logger = logging.getLogger("odradek.audit")

_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One change, or an attempt at one."""

    time: str
    action: str
    what: str
    outcome: str  # "done", or the name of Kafka's error
    principal: str = ""  # who did it, in a console for many
    cluster: str = ""  # "": the one that the console was started for


class AuditTrail:
    """The lines of a console. Raises KafkaError(INVALID_CONFIG) if the file cannot be written."""

    def __init__(self, clock: Clock, file: str | None = None) -> None:
        self._clock = clock
        self._lines: deque[AuditLine] = deque(maxlen=_KEPT)
        self._principal = ""
        self._cluster = ""
        self._path = None if file is None else Path(file)
        if self._path is not None:
            try:
                os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
            except OSError as error:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG, f"cannot write the audit file {file}: {error.strerror}"
                ) from None

    def of(self, principal: str) -> AuditTrail:
        """Return the trail as a principal sees it: the same file, lines with the name, and only those to look at."""
        found = copy(self)
        found._principal = principal
        return found

    def in_cluster(self, name: str) -> AuditTrail:
        """Return the trail of another cluster: the same file, lines with its name, and only those to look at."""
        trail = copy(self)
        trail._cluster = name
        return trail

    def lines(self) -> list[AuditLine]:
        """Return the lines in memory, newest first."""
        return [
            line
            for line in reversed(self._lines)
            if line.cluster == self._cluster and self._principal in ("", line.principal)
        ]

    @contextmanager
    def noting(self, action: str, what: str) -> Iterator[None]:
        """Write a line about the change in this block, with its outcome."""
        try:
            yield
        except KafkaError as error:
            self._write(action, what, error.code.name)
            raise
        except BaseException:
            self._write(action, what, "failed")
            raise
        self._write(action, what, "done")

    def _write(self, action: str, what: str, outcome: str) -> None:
        line = AuditLine(iso_time(self._clock.now_ms()), action, what, outcome, self._principal, self._cluster)
        self._lines.append(line)
        logger.info("console: %s %s: %s %s %s", action, what, outcome, self._principal, self._cluster)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(line), ensure_ascii=False) + "\n")
