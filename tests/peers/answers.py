"""Answers in a form that two brokers can agree on, and what differs between two of them.

    error codes     by their names
    messages        "..." where there is one: brokers say the same in words of their own
    ids of topics   uuid-1, uuid-2 ... in the order in which an answer has them; none
    names           without what makes them unique
    bytes           as hexadecimal digits
    addresses       HOST:PORT of the broker

A difference names the place in the answer and both values: `Topics[0].ErrorCode`. Only leaves are compared, and a
list's length. That we say more than Apache Kafka in a message is none, nor are messages beside the code of success.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.errors import ErrorCode

from tests.peers.codec import NO_UUID

ABSENT = "(absent)"
_MESSAGE, _TEXT = "ErrorMessage", "..."
_MESSAGES = (_MESSAGE, "Documentation")


def normalised(answer: Any, suffix: str, servers: Sequence[str]) -> Any:
    """Return an answer as JSON has it, without what differs from run to run."""
    return _Normal(suffix, servers).value(answer)


class _Normal:
    def __init__(self, suffix: str, servers: Sequence[str]) -> None:
        self._suffix = suffix
        self._ports = [int(server.rpartition(":")[2]) for server in servers if server]
        self._uuids: dict[uuid.UUID, str] = {NO_UUID: "none"}

    def value(self, value: Any, name: str = "") -> Any:
        if isinstance(value, Mapping):
            return {self._text(str(key)): self.value(member, str(key)) for key, member in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(element, name) for element in value]
        if isinstance(value, bytes):
            return value.hex()
        if isinstance(value, uuid.UUID):
            return self._uuids.setdefault(value, f"uuid-{len(self._uuids)}")
        if isinstance(value, str):
            return _TEXT if name in _MESSAGES and value else self._text(value)
        if name.endswith("ErrorCode") and isinstance(value, int):
            return error_name(value)
        if name == "Port" and value in self._ports:
            return "PORT"
        return value

    def _text(self, text: str) -> str:
        for port in self._ports:
            text = text.replace(f":{port}", ":PORT")
        return text.replace(f"-{self._suffix}", "-*").replace(self._suffix, "*")


def _succeeded(answer: Mapping[str, Any]) -> bool:
    return answer.get("ErrorCode") == ErrorCode.NONE.name


def error_name(code: int) -> str:
    """The name of a Kafka error; its number where we do not know it."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def differences(kafka: Any, odradek: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    """Both values by place, of those places where two normalised answers differ."""
    if isinstance(kafka, dict) and isinstance(odradek, dict):
        differing: dict[str, tuple[Any, Any]] = {}
        for key in sorted({*kafka, *odradek}):
            inner = f"{path}.{key}" if path else key
            if key == _MESSAGE and (odradek.get(key) == _TEXT or kafka.get(key) != _TEXT or _succeeded(kafka)):
                continue
            differing.update(differences(kafka.get(key, ABSENT), odradek.get(key, ABSENT), inner))
        return differing
    if isinstance(kafka, list) and isinstance(odradek, list) and len(kafka) == len(odradek):
        differing = {}
        for index, (one, other) in enumerate(zip(kafka, odradek, strict=True)):
            differing.update(differences(one, other, f"{path}[{index}]"))
        return differing
    return {} if kafka == odradek else {path or "answer": (kafka, odradek)}
