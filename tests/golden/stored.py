"""A store as JSON: every item and object of the memory adapters, and back.

    {"now_ms": ..., "tables": {"log": [[pk, sk, item], ...], ...}, "objects": [[key, base64, last modified ms], ...]}

A text, a number or a truth value stands for itself; {"b": base64} are bytes, {"l": [...]} a list, {"m": {...}} a map.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.ports.table import Item, Key, Put, Value
from odradek.testing.manual_clock import ManualClock

TABLES = ("log", "groups", "catalog", "rows")


def dump(store: MemoryStore, objects: MemoryObjectStore, now_ms: int) -> dict[str, Any]:
    """Everything that is stored, ordered by key."""
    return {
        "now_ms": now_ms,
        "tables": {
            name: [
                [pk, sk, _plain(state.item)["m"]]
                for pk, rows in sorted(getattr(store, name)._partitions.items())
                for sk, state in sorted(rows.items())
            ]
            for name in TABLES
        },
        "objects": [
            [key, b64encode(content).decode(), modified_ms]
            for key, (content, modified_ms) in sorted(objects._objects.items())
        ],
    }


async def load(document: dict[str, Any]) -> tuple[MemoryStore, MemoryObjectStore, ManualClock]:
    """A store that holds just that, and a clock at its time."""
    clock = ManualClock(document["now_ms"], auto_advance=True)
    store, objects = MemoryStore(), MemoryObjectStore(clock)
    for name, rows in document["tables"].items():
        for pk, sk, item in rows:
            await getattr(store, name).put(Put(Key(pk, sk), _item(item)))
    for key, content, modified_ms in document["objects"]:
        objects._objects[key] = (b64decode(content), modified_ms)
    return store, objects, clock


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"b": b64encode(value).decode()}
    if isinstance(value, list):
        return {"l": [_plain(element) for element in value]}
    if isinstance(value, dict):
        return {"m": {name: _plain(member) for name, member in sorted(value.items())}}
    return value


def _item(plain: dict[str, Any]) -> Item:
    return {name: _value(member) for name, member in plain.items()}


def _value(plain: Any) -> Value:
    if not isinstance(plain, dict):
        return plain  # type: ignore[no-any-return]
    [(type_code, content)] = plain.items()
    if type_code == "b":
        return b64decode(content)
    return [_value(element) for element in content] if type_code == "l" else _item(content)
