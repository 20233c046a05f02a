"""Damage to bytes and to stored items, drawn from a seeded generator: fast, since a run does it a million times."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

# Where counts, lengths and signs change their meaning.
_BYTES = (0x00, 0x01, 0x02, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
_NUMBERS = (0, 1, -1, 2, -2, 127, 128, 255, 256, 32_767, 32_768, 65_535, 2**31 - 1, -(2**31), 2**31, 2**32 - 1)
_WIDE = (*_NUMBERS, 2**63 - 1, -(2**63), 2**62, -(2**62))
_VARINTS = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\xff\x01",
    b"\x80\x80\x80\x80\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80" * 11,
)


def mutated(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """The data with one to eight pieces of damage; one time in 32, bytes that have nothing to do with it."""
    draw = chance.random
    if draw() < 1 / 32:
        return chance.randbytes(int(draw() ** 2 * 300))
    out = bytearray(data)
    for _ in range(1 << int(draw() ** 2 * 4)):
        _DAMAGES[int(draw() * len(_DAMAGES))](out, others, chance)
    return bytes(out)


def _position(out: bytearray, chance: random.Random) -> int:
    """Anywhere; half the time among the first bytes, where counts and lengths stand."""
    size = len(out)
    if chance.random() < 0.5:
        size = min(size, 80)
    return int(chance.random() * size)


def _set(out: bytearray, others: Sequence[bytes], chance: random.Random) -> None:
    if out:
        out[_position(out, chance)] = _BYTES[int(chance.random() * len(_BYTES))]


def _flip(out: bytearray, others: Sequence[bytes], chance: random.Random) -> None:
    if out:
        out[_position(out, chance)] ^= 1 << int(chance.random() * 8)


def _any(out: bytearray, others: Sequence[bytes], chance: random.Random) -> None:
    if out:
        out[_position(out, chance)] = int(chance.random() * 256)


def _number(out: bytearray, others: Sequence[bytes], chance: random.Random) -> None:
    width = (2, 4, 4, 8)[int(chance.random() * 4)]
    at = _position(out, chance)
    if at + width <= len(out):
        value = _WIDE[int(chance.random() * len(_WIDE))] % (1 << 8 * width)
        out[at : at + width] = value.to_bytes(width, "big")


def _varint(out: bytearray, others: Sequence[bytes], chance: random.Random) -> None:
    at = _position(out, chance)
    out[at : at + 1] = _VARINTS[int(chance.random() * len(_VARINTS))]


def _insert(out: bytearray, others: Sequence[bytes], chance: random.Random) -> None:
    at = _position(out, chance)
    out[at:at] = chance.randbytes(1 + int(chance.random() ** 3 * 40))


def _remove(out: bytearray, others: Sequence[bytes], chance: random.Random) -> None:
    at = _position(out, chance)
    del out[at : at + 1 + int(chance.random() ** 3 * 40)]


def _cut(out: bytearray, others: Sequence[bytes], chance: random.Random) -> None:
    del out[_position(out, chance) :]


def _repeat(out: bytearray, others: Sequence[bytes], chance: random.Random) -> None:
    at = _position(out, chance)
    piece = out[at : at + 1 + int(chance.random() * 20)]
    out[at:at] = piece * (1 + int(chance.random() ** 4 * 30))


def _splice(out: bytearray, others: Sequence[bytes], chance: random.Random) -> None:
    other = others[int(chance.random() * len(others))]
    start = int(chance.random() * len(other))
    out[_position(out, chance) :] = other[start : start + 2_000]


Damage = Callable[[bytearray, Sequence[bytes], random.Random], None]
_DAMAGES: tuple[Damage, ...] = (
    _set, _set, _flip, _flip, _any, _number, _number, _varint, _varint, _insert, _remove, _cut, _repeat, _splice,
)  # fmt: skip


def mutated_item(item: Any, chance: random.Random) -> Any:
    """A stored item (a tree of dicts, lists and scalars) with one to four attributes damaged, lost or made up."""
    out = _copied(item)
    for _ in range(1 + int(chance.random() * 4)):
        container = out
        while chance.random() < 0.5:
            inner = [value for value in _values(container) if isinstance(value, dict | list) and value]
            if not inner:
                break
            container = chance.choice(inner)
        if isinstance(container, dict):
            name = chance.choice([*container, "", "x"]) if container else "x"
            if name in container and chance.random() < 0.25:
                del container[name]
            else:
                container[name] = _damaged(container.get(name, 0), chance)
        elif container:
            at = chance.randrange(len(container))
            container[at] = _damaged(container[at], chance)
    return out


def _values(container: Any) -> Sequence[Any]:
    return list(container.values()) if isinstance(container, dict) else container


def _damaged(value: Any, chance: random.Random) -> Any:
    if chance.random() < 0.25:  # of another type
        return chance.choice([0, 1, True, "", "w", "7", b"", b"\x00" * 60, [], [b""], {}, {"e": 0, "s": 0}, 10**37])
    match value:
        case bool():
            return not value
        case int():
            return chance.choice(_WIDE)
        case bytes():
            return mutated(value, (value or b"\x00",), chance)
        case str():
            return chance.choice([value + "x", value[:-1], "", "s", "w", "-1", "9" * 30])
        case list():
            return (value * 3)[: chance.randrange(len(value) * 3 + 1)]
        case _:
            return {**value, chance.choice(["-1", "1", "x", ""]): chance.choice([*value.values(), 0])}


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(member) for name, member in value.items()}
    return [_copied(element) for element in value] if isinstance(value, list) else value
