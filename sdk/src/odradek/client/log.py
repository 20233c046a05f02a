"""What the clients log (docs/logging.md): one logger a package, lines that name the client, no line twice a second.

    [consumer group='g' member='x9...'] Fetch fails: BROKER_NOT_AVAILABLE: cannot connect to ...     the first failure
    [consumer group='g' member='x9...'] Fetch has failed 61 times in 30 s: BROKER_NOT_AVAILABLE: ... every 30 s
    [consumer group='g' member='x9...'] Fetch succeeds again after 42.0 s                            its end

Levels: ERROR for what ends a client or loses a record, WARNING for what an operator should look at, INFO for the steps
of a client's life, DEBUG for details. Nothing is logged for a record or a poll. Without handlers nothing is printed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from odradek.errors import KafkaError
from odradek.model.topic_partition import TopicPartition

_NAMES, _PREFIX = "odradek_names", "odradek_prefix"  # attributes of a LogRecord
_AGAIN_S = 30.0  # between two lines about the same trouble

logging.getLogger("odradek.client").addHandler(logging.NullHandler())


class ClientLog(logging.LoggerAdapter[logging.Logger]):
    """The log of one client: each line begins with its kind and names.

    Args:
        package: of `odradek.client`, which names the logger.
        kind: of the client, as a user knows it.
        names: what identifies the client; None leaves a name out.
    """

    def __init__(self, package: str, client_kind: str, **names: str | None) -> None:
        super().__init__(logging.getLogger(f"odradek.client.{package}"), {})
        self._kind = client_kind
        self._names: dict[str, str | None] = {}
        self._prefix = ""
        self.name_client(**names)

    def name_client(self, **names: str | None) -> None:
        """Add or replace names of the client, such as its member id."""
        self._names |= names
        shown = "".join(f" {name}={value!r}" for name, value in self._names.items() if value is not None)
        self._prefix = f"[{self._kind}{shown}] ".replace("%", "%%")

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Implement LoggerAdapter. The record knows the client by its names, for JsonFormatter."""
        names = {"client": self._kind, **{name: value for name, value in self._names.items() if value is not None}}
        kwargs["extra"] = {**(kwargs.get("extra") or {}), _NAMES: names, _PREFIX: self._prefix.replace("%%", "%")}
        return f"{self._prefix}{msg}", kwargs


class JsonFormatter(logging.Formatter):
    """Formats a line of the log as one JSON object: of clients with their names as fields.

        {"time": "2026-11-22T09:30:00.125Z", "level": "WARNING", "logger": "odradek.client.consumer",
         "message": "Fetch fails: ...", "client": "consumer", "group": "board", "member": "hV0s..."}

    For a handler of any logger: `handler.setFormatter(odradek.JsonFormatter())`.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the message without the client's names."""
        return record.getMessage().removeprefix(getattr(record, _PREFIX, ""))

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as JSON."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": self.formatMessage(record),
            **getattr(record, _NAMES, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def shown(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions for a line of the log: "t [0, 1], u [3]", or "none"."""
    numbers: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        numbers.setdefault(topic, []).append(partition)
    return ", ".join(f"{topic} {partitions}" for topic, partitions in numbers.items()) or "none"


@dataclass(slots=True)
class _Outage:
    since_s: float
    failures: int = 0
    logged_s: float | None = None  # None: not yet


class Outages:
    """Logs calls that fail and are repeated: at the first failure, every 30 s, and when they succeed again.

    Args:
        grace_s: nothing is logged about what succeeds again within this time.
    """

    def __init__(self, log: ClientLog, *, grace_s: float = 0.0) -> None:
        self._log = log
        self._grace_s = grace_s
        self._open: dict[str, _Outage] = {}

    def __bool__(self) -> bool:
        """True while something fails."""
        return bool(self._open)

    def failed(self, call: str, error: KafkaError, now_s: float) -> None:
        """Note that a call failed and will be repeated."""
        outage = self._open.setdefault(call, _Outage(now_s))
        outage.failures += 1
        lasts_s = now_s - outage.since_s
        if outage.logged_s is None:
            if lasts_s < self._grace_s:
                return
        elif now_s - outage.logged_s < _AGAIN_S:
            return
        if outage.failures == 1:
            self._log.warning("%s fails: %s", call, error)
        else:
            self._log.warning("%s has failed %d times in %.0f s: %s", call, outage.failures, lasts_s, error)
        outage.logged_s = now_s

    def ended(self, call: str, now_s: float) -> None:
        """Note that a call succeeded, or is not repeated any more."""
        if self._open and (outage := self._open.pop(call, None)) is not None and outage.logged_s is not None:
            self._log.info("%s succeeds again after %.1f s", call, now_s - outage.since_s)

    def gave_up(self, call: str, error: KafkaError | None, timeout_s: float) -> None:
        """Note that a call is not repeated any more: its deadline has passed, or the error (None) is the caller's."""
        self._open.pop(call, None)
        if error is not None:
            self._log.warning("%s is given up after %.1f s, its deadline: %s", call, timeout_s, error)


class Throttled:
    """Logs pauses that the service asks for: the first one, then every 30 s."""

    def __init__(self, log: ClientLog) -> None:
        self._log = log
        self._logged_s: float | None = None
        self._pauses = 0
        self._sum_s = 0.0

    def paused(self, call: str, pause_s: float, now_s: float) -> None:
        """Note a pause."""
        self._pauses += 1
        self._sum_s += pause_s
        if self._logged_s is None or now_s - self._logged_s >= _AGAIN_S:
            self._log.warning(
                "throttled: the service answers %s with a pause of %.0f ms (%d pauses of %.1f s in all): a quota is "
                "exceeded, or its store is throttled",
                call,
                pause_s * 1000,
                self._pauses,
                self._sum_s,
            )
            self._logged_s = now_s
