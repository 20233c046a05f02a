"""Columns of text that are not written as they are: masked, hashed or shortened, as Debezium does.

    column.mask.with.N.chars                        N asterisks, also in place of null
    column.mask.hash.ALGORITHM.with.salt.SALT       the hash of the text as Java serializes it (Debezium's version 1)
    column.mask.hash.v2.ALGORITHM.with.salt.SALT    the hash of the text
    column.truncate.to.N.chars                      the first N characters

The values are regular expressions of columns, as schema.table.column. A hash is in hexadecimal digits, and cut to the
length of the column. Of several options that match, the first of this order counts: truncate, mask, hash, hash v2.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from odradek.connect.config import java_regex
from odradek.connect.connectors.cdc.tables import Column, TableId
from odradek.connect.data.schema import Type
from odradek.connect.errors import ConfigError, ConnectError

_log = logging.getLogger("odradek.connect.cdc")
_NAME = re.compile(
    r"column\.(?:truncate\.to\.(?P<first>\d+)\.chars|mask\.with\.(?P<stars>\d+)\.chars"
    r"|mask\.hash\.(?P<v2>v2\.)?(?P<algorithm>[^.]+)\.with\.salt\.(?P<salt>.+))"
)
PREFIXES = ("column.mask.with.", "column.mask.hash.", "column.truncate.to.")
_SHORT_MAX = 0xFFFF  # bytes of a text that Java serializes with a length of 16 bits


class _Rule(NamedTuple):
    order: int
    patterns: list[re.Pattern[str]]
    change: Callable[[str], str]
    parameter: tuple[str, str]  # of the field's schema
    of_null: str | None = None
    is_hash: bool = False


class Masks:
    """The rules of a connector. Raises ConfigError for an option that is none.

    Args:
        configs: the connector's, as they were given.
    """

    def __init__(self, configs: Mapping[str, Any]) -> None:
        rules = [_rule(name, str(value)) for name, value in configs.items() if name.startswith(PREFIXES)]
        self._rules = sorted(rules, key=lambda rule: rule.order)
        self._told: set[str] = set()

    def column(self, table: TableId, column: Column, length: int, *, is_key: bool) -> Column:
        """Return a column as it is written.

        Args:
            length: the most characters of the column; 0: any number.

        Raises:
            ConnectError: rows would have the same key.
        """
        name = f"{table}.{column.name}"
        rule = next((rule for rule in self._rules if any(one.fullmatch(name) for one in rule.patterns)), None)
        if rule is None:
            return column
        if column.schema.type is not Type.STRING or column.schema.name is not None:
            if name not in self._told:
                self._told.add(name)
                _log.warning("%s is not masked: it is no text", name)
            return column
        if is_key and not rule.is_hash:
            raise ConnectError(f"{name} belongs to the key, which must tell rows apart: hash it instead")
        decode, change = column.decode, rule.change
        cut = slice(length if rule.is_hash and length else None)
        schema = replace(column.schema, parameters=(*column.schema.parameters, rule.parameter))
        return replace(column, schema=schema, decode=lambda value: change(decode(value))[cut], of_null=rule.of_null)


def _rule(name: str, value: str) -> _Rule:
    match = _NAME.fullmatch(name)
    if match is None:
        raise ConfigError(
            {name: [f"{name} must be {', '.join(prefix + '...' for prefix in PREFIXES)} as Debezium has it"]}
        )
    try:
        patterns = [
            re.compile(java_regex(pattern.strip()), re.IGNORECASE) for pattern in value.split(",") if pattern.strip()
        ]
    except re.error as error:
        raise ConfigError({name: [f"{name} must have regular expressions, not {value!r}: {error}"]}) from None
    if match["first"]:
        count = int(match["first"])
        return _Rule(0, patterns, lambda text: text[:count], ("truncateLength", str(count)))
    masked = ("masked", "true")
    if match["stars"]:
        stars = "*" * int(match["stars"])
        return _Rule(1, patterns, lambda _: stars, masked, of_null=stars)
    algorithm, salt, is_v2 = match["algorithm"].replace("-", "").lower(), match["salt"].encode(), bool(match["v2"])
    if algorithm not in hashlib.algorithms_guaranteed or algorithm.startswith("shake"):
        raise ConfigError({name: [f"{name}: the algorithm must be one such as SHA-256, not {match['algorithm']}"]})

    def hashed(text: str) -> str:
        data = text.encode()
        return hashlib.new(algorithm, salt + (data if is_v2 else _serialized(data))).hexdigest()

    return _Rule(3 if is_v2 else 2, patterns, hashed, masked, is_hash=True)


def _serialized(text: bytes) -> bytes:
    """Return a text as Java's ObjectOutputStream writes it; NUL and characters beyond U+FFFF differ there."""
    if len(text) <= _SHORT_MAX:
        return b"\xac\xed\x00\x05t" + len(text).to_bytes(2, "big") + text
    return b"\xac\xed\x00\x05|" + len(text).to_bytes(8, "big") + text
