"""Values of configurations: their types, what is accepted, and the notation that is stored."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")


class ConfigType(IntEnum):
    """Kafka's config types, as DescribeConfigs numbers them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True)
class Check:
    """A rule for values, and the same rule in words for messages and docs/reference.md."""

    accepts: Callable[[str], bool]
    allowed: str

    def __call__(self, text: str) -> bool:
        return self.accepts(text)


def number_in_words(number: int) -> str:
    """Digits, but powers of two at the end of a type by name."""
    return {LONG_MAX: "2^63-1", -LONG_MAX - 1: "-2^63", INT_MAX: "2^31-1"}.get(number, str(number))


def whole_number(low: int, high: int) -> Check:
    """Whole numbers as Java reads them, of these bounds, both included."""
    return Check(
        lambda text: _WHOLE.fullmatch(text) is not None and low <= int(text) <= high,
        f"{number_in_words(low)} to {number_in_words(high)}",
    )


def one_of(*values: str) -> Check:
    """These values alone."""
    return Check(lambda text: text in values, ", ".join(values))


boolean = Check(lambda text: text.strip().lower() in ("true", "false"), "true, false")


def split_list(text: str) -> list[str]:
    """Return the members of a LIST, as Kafka splits it."""
    return [part.strip() for part in text.split(",")] if text.strip() else []


def canonical(kind: ConfigType, text: str) -> str:
    """Return a value that was checked in the notation that is stored: as Kafka, which parses it, would show it."""
    match kind:
        case ConfigType.STRING:
            return text
        case ConfigType.BOOLEAN:
            return text.strip().lower()
        case ConfigType.DOUBLE:
            return str(float(text))
        case ConfigType.LIST:
            return ",".join(split_list(text))
        case _:
            return str(int(text))
