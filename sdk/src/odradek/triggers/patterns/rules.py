"""The rules of a pattern: which values of a field fulfil them. Source: EventBridge user guide, "Comparison operators".

"text", 1.5, true, null    equality: of numbers as numbers, of addresses however they are written
exactly, prefix, suffix, equals-ignore-case, wildcard (* is any text, \\* an asterisk, \\\\ a backslash)
numeric, cidr, exists, anything-but (texts or numbers; prefix, suffix, wildcard, equals-ignore-case)
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from odradek.triggers.patterns.events import Literal, Object

Test = Callable[[str], bool]
_COMPARE: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b,
}
_LOWER, _UPPER = (">", ">="), ("<", "<=")
_IPV4 = re.compile(r"\d{1,3}(\.\d{1,3}){3}", re.ASCII)
_IPV6 = re.compile(r"[0-9a-fA-F:]*:[0-9a-fA-F:]*")
_DIGITS_MAX = 400  # of a number that is compared as one
_IPV4_BITS, _IPV6_BITS = 32, 128


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one field, of which one must be fulfilled.

    Attributes:
        tests: of a value.
        allows_absence: the field may also be missing.
    """

    tests: tuple[Test, ...]
    allows_absence: bool

    def holds(self, value: str) -> bool:
        """Return True if the value fulfils a rule."""
        return any(test(value) for test in self.tests)


def rules_of(operands: list[Any]) -> Rules:
    """Return the rules of a list as `events.parse` has it. Raises ValueError: what is wrong with it."""
    if not operands:
        raise ValueError("a filter's list of rules cannot be empty")
    tests = []
    allows_absence = False
    for rule in operands:
        if not isinstance(rule, list):
            tests.append(_equal(rule))
            continue
        if not isinstance(rule, Object):
            raise ValueError("a filter's list of rules cannot contain a list")
        if len(rule) != 1:
            raise ValueError(f"a filter's rule has one operator, not {', '.join(name for name, _ in rule) or 'none'}")
        [(operator, operand)] = rule
        if operator not in _OPERATORS:
            raise ValueError(f"unknown operator {operator!r} in a filter: use {', '.join(_OPERATORS)}")
        if operator == "exists" and operand is False:
            allows_absence = True
        else:
            tests.append(_OPERATORS[operator](operand))
    return Rules(tuple(tests), allows_absence)


def _text(operator: str, operand: Any) -> str:
    if not isinstance(operand, str) or isinstance(operand, Literal):
        raise ValueError(f"{operator} of a filter must be a text")
    return operand


def _of_text(test: Test) -> Test:
    return lambda value: not isinstance(value, Literal) and test(value)


# --- equality ---------------------------------------------------------------------------------------------------------


def _equal(wanted: Any) -> Test:
    if not isinstance(wanted, str):
        wanted = Literal({True: "true", False: "false", None: "null"}[wanted])
    if isinstance(wanted, Literal):
        number = _number(wanted)
        return lambda value: (
            isinstance(value, Literal)
            and (str(value) == str(wanted) or (number is not None and _number(value) == number))
        )
    address = _address(wanted)
    if address is None:
        return _of_text(lambda value: value == wanted)
    return _of_text(lambda value: value == wanted or _address(value) == address)


def _number(value: str) -> Decimal | None:
    """Return the number that a literal is; None: a double cannot write it, and it equals its own spelling alone."""
    if len(value) > _DIGITS_MAX:
        return None
    try:
        exact, nearest = Decimal(value), Decimal(repr(float(value)))
    except (InvalidOperation, ValueError):
        return None
    return exact if exact.is_finite() and exact == nearest else None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a text is, zeros before numbers included; None for another text."""
    try:
        if _IPV4.fullmatch(text):
            return ipaddress.IPv4Address(bytes(map(int, text.split("."))))
        if _IPV6.fullmatch(text):
            address = ipaddress.IPv6Address(text)
            return address.ipv4_mapped or address
    except ValueError:
        pass
    return None


# --- operators --------------------------------------------------------------------------------------------------------


def _exactly(operand: Any) -> Test:
    wanted = _text("exactly", operand)
    return _of_text(lambda value: value == wanted)


def _affix(operator: str, operand: Any) -> Test:
    is_prefix = operator == "prefix"
    if isinstance(operand, Object):
        if [name for name, _ in operand] != ["equals-ignore-case"]:
            raise ValueError(f"{operator} of a filter can only be a text or have equals-ignore-case")
        pattern = _ignoring_case(_text("equals-ignore-case", operand[0][1]))
        ended = re.compile(pattern if is_prefix else rf"(?:{pattern})\Z", re.DOTALL)
        return _of_text(lambda value: bool(ended.match(value) if is_prefix else ended.search(value)))
    text = _text(operator, operand)
    return _of_text(lambda value: value.startswith(text) if is_prefix else value.endswith(text))


def _ignoring_case(text: str) -> str:
    """Return a regular expression of a text in either case, letter by letter: ß is SS, and SS is not ß."""
    return "".join(f"(?:{re.escape(char.lower())}|{re.escape(char.upper())})" for char in text)


def _equals_ignore_case(operand: Any) -> Test:
    pattern = re.compile(_ignoring_case(_text("equals-ignore-case", operand)), re.DOTALL)
    return _of_text(lambda value: pattern.fullmatch(value) is not None)


def _wildcard(operand: Any) -> Test:
    text = _text("wildcard", operand)
    if "**" in re.sub(r"\\.", "", text, flags=re.DOTALL):
        raise ValueError("wildcard of a filter cannot have two asterisks in a row")
    if re.sub(r"\\[*\\]", "", text).count("\\"):
        raise ValueError(r"wildcard of a filter has a backslash only before * or \ ")
    parts = re.findall(r"\\[*\\]|\*|[^*\\]+", text)
    pattern = re.compile(
        "".join(".*" if part == "*" else re.escape(part[1:] if part[0] == "\\" else part) for part in parts), re.DOTALL
    )
    return _of_text(lambda value: pattern.fullmatch(value) is not None)


def _numeric(operand: Any) -> Test:
    if isinstance(operand, Object) or not isinstance(operand, list) or len(operand) not in (2, 4):
        raise ValueError('numeric of a filter is a comparison or two, such as [">", 0, "<=", 5]')
    signs, bounds = [str(sign) for sign in operand[::2]], [_bound(number) for number in operand[1::2]]
    if any(sign not in _COMPARE for sign in signs):
        raise ValueError(f"numeric of a filter compares by {', '.join(_COMPARE)}")
    if len(signs) == 2 and (signs[0] not in _LOWER or signs[1] not in _UPPER or bounds[0] >= bounds[1]):
        raise ValueError("numeric of a filter has a lower bound first, then a greater upper one")

    def test(value: str) -> bool:
        number = _number(value) if isinstance(value, Literal) else None
        return number is not None and all(
            _COMPARE[sign](number, bound) for sign, bound in zip(signs, bounds, strict=True)
        )

    return test


def _bound(operand: Any) -> Decimal:
    number = _number(operand) if isinstance(operand, Literal) else None
    if number is None:
        raise ValueError("a filter compares with numbers that a double can write")
    return number


def _cidr(operand: Any) -> Test:
    address, slash, bits = _text("cidr", operand).partition("/")
    base = _address(address)
    size = 0 if base is None else _IPV4_BITS if base.version == 4 else _IPV6_BITS
    if base is None or not slash or not bits.isdigit() or int(bits) >= size:
        raise ValueError(f"cidr of a filter must be a range of addresses, such as 10.0.0.0/24, not {operand!r}")
    network = ipaddress.ip_network((base, int(bits)), strict=False)
    return _of_text(lambda value: (address := _address(value)) is not None and address in network)


def _exists(operand: Any) -> Test:
    if operand is not True:
        raise ValueError("exists of a filter must be true or false")
    return lambda value: True


def _anything_but(operand: Any) -> Test:
    if isinstance(operand, Object):
        names = [name for name, _ in operand]
        if names not in (["prefix"], ["suffix"], ["wildcard"], ["equals-ignore-case"]):
            raise ValueError("anything-but of a filter has prefix, suffix, wildcard or equals-ignore-case")
        texts = _listed(operand[0][1])
        if names[0] in ("prefix", "suffix") and "" in texts:
            raise ValueError(f"{names[0]} of a filter's anything-but cannot be empty")
        excluded = [_OPERATORS[names[0]](_text(names[0], operand_text)) for operand_text in texts]
        return _none_of(excluded)
    values = _listed(operand)
    numbers = [isinstance(value, Literal) for value in values]
    if not all(isinstance(value, str) for value in values) or any(numbers) != all(numbers):
        raise ValueError("anything-but of a filter has texts or numbers, not both, and no other")
    for value in values:
        if isinstance(value, Literal):
            _bound(value)
    return _none_of(map(_equal_or_exactly, values))


def _equal_or_exactly(value: str) -> Test:
    return _equal(value) if isinstance(value, Literal) else _exactly(value)


def _listed(operand: Any) -> list[Any]:
    values = operand if isinstance(operand, list) else [operand]
    if not values:
        raise ValueError("anything-but of a filter cannot be empty")
    return values


def _none_of(tests: Iterable[Test]) -> Test:
    excluded = tuple(tests)
    return lambda value: not any(test(value) for test in excluded)


_OPERATORS: dict[str, Callable[[Any], Test]] = {
    "prefix": lambda operand: _affix("prefix", operand),
    "suffix": lambda operand: _affix("suffix", operand),
    "equals-ignore-case": _equals_ignore_case,
    "anything-but": _anything_but,
    "numeric": _numeric,
    "exists": _exists,
    "wildcard": _wildcard,
    "cidr": _cidr,
    "exactly": _exactly,
}
RESERVED = frozenset({*_OPERATORS, *_COMPARE})
"""Names that no field of a pattern within $or has: a rule that lost its list would be one."""
