"""Lines of the clients' log as JSON, for the collectors of logs."""

from __future__ import annotations

import io
import json
import logging
from typing import Any

import odradek
from odradek.client.log import ClientLog


def logged(write: Any, logger: str = "odradek.client.consumer") -> list[dict[str, Any]]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(odradek.JsonFormatter())
    target = logging.getLogger(logger)
    target.addHandler(handler)
    try:
        write()
    finally:
        target.removeHandler(handler)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_client_is_told_by_its_fields() -> None:
    log = ClientLog("consumer", "consumer", group="100% own", member="m", instance=None)
    [line] = logged(lambda: log.warning("Fetch fails: %s\nagain", "NETWORK_EXCEPTION"))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "WARNING",
        "logger": "odradek.client.consumer",
        "message": "Fetch fails: NETWORK_EXCEPTION\nagain",
        "client": "consumer",
        "group": "100% own",
        "member": "m",
    }


def test_other_loggers_and_exceptions_are_lines_too() -> None:
    def fail() -> None:
        try:
            raise ValueError("no")
        except ValueError:
            logging.getLogger("odradek.store").exception("a call failed")

    [line] = logged(fail, "odradek.store")
    assert (line["level"], line["message"]) == ("ERROR", "a call failed")
    assert line["exception"].endswith("ValueError: no")
    assert "client" not in line
