"""Text of the binary log: bytes of a column's charset as the text that a query of the same server gives.

Unicode's charsets and ASCII are Python's codecs. Of every other one the server is asked once for its alphabet, since
codecs of the same name differ: of MySQL's latin1 all 256 bytes are characters, its sjis has another wave dash. What
the codec of a charset of several bytes cannot read is converted by the server, value by value.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import lru_cache
from typing import Any

Decode = Callable[[bytes], str]
Rows = Callable[..., list[tuple[Any, ...]]]

BINARY = 63
"""The collation of bytes that are no text."""
_UNICODE = {
    "utf8": "utf-8", "utf8mb3": "utf-8", "utf8mb4": "utf-8", "ascii": "ascii", "ucs2": "utf-16-be",
    "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be",
}  # fmt: skip
_SEVERAL_BYTES = {
    "big5": "big5", "cp932": "cp932", "eucjpms": "euc_jp", "euckr": "cp949", "gb18030": "gb18030", "gb2312": "gb2312",
    "gbk": "gbk", "sjis": "shift_jis", "ujis": "euc_jp",
}  # fmt: skip
_CONVERSION = "SELECT CONVERT(_{charset} 0x{data} USING utf8mb4)"
_KEPT = 10_000  # values that the server had to convert


class Charsets:
    """The charsets of one server, by the numbers of its collations.

    Args:
        rows: executes a statement.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._names: dict[int, str] = {}
        self._decoders: dict[int, Decode] = {}

    def decoder(self, collation: int) -> Decode:
        """Return what reads text of a collation. Raises UnicodeDecodeError when text is none of the charset."""
        decode = self._decoders.get(collation)
        if decode is None:
            decode = self._decoders[collation] = self._made(self._name(collation))
        return decode

    def _name(self, collation: int) -> str:
        if not self._names:
            self._names = {int(number): str(name) for number, name in self._collations() if number is not None}
        return self._names.get(collation, "utf8mb4")

    def _collations(self) -> list[tuple[Any, ...]]:
        columns = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'information_schema' AND "
        table = "collation_character_set_applicability"
        has_numbers = self._rows(f"{columns} table_name = '{table}' AND column_name = 'id'")
        source = table if has_numbers else "collations"  # MariaDB has collations of several charsets since 10.10
        return self._rows(f"SELECT id, character_set_name FROM information_schema.{source}")  # noqa: S608

    def _made(self, charset: str) -> Decode:
        codec = _UNICODE.get(charset)
        if codec is not None:
            decode = codecs.getdecoder(codec)
            return lambda data: decode(data)[0]
        if charset in _SEVERAL_BYTES:
            return self._of_several_bytes(charset, _SEVERAL_BYTES[charset])
        alphabet = self._converted(charset, bytes(range(256)))
        return lambda data: codecs.charmap_decode(data, "strict", alphabet)[0]

    def _of_several_bytes(self, charset: str, codec: str) -> Decode:
        """Return a decoder by Python's codec, corrected where the server has another character."""
        pairs = ((bytes((first, second)), codec) for first in range(0x81, 0xFF) for second in range(0x40, 0xFF))
        characters = {data: text for data, codec in pairs if len(text := _read(data, codec)) == 1}
        theirs = self._converted(charset, b"".join(characters))
        ours = "".join(characters.values())
        corrections = {ord(one): other for one, other in zip(ours, theirs, strict=True) if one != other}

        @lru_cache(_KEPT)
        def converted(data: bytes) -> str:
            return self._converted(charset, data)

        def decode(data: bytes) -> str:
            try:
                text = data.decode(codec)
            except UnicodeDecodeError:
                return converted(data)
            return text.translate(corrections) if corrections and not text.isascii() else text

        return decode

    def _converted(self, charset: str, data: bytes) -> str:
        return str(self._rows(_CONVERSION.format(charset=charset, data=data.hex()))[0][0])


def _read(data: bytes, codec: str) -> str:
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        return ""
