"""Recipes: values made again, byte for byte, from the cells of typed columns.

    recipe    steps, one after the other; a value is what they make, joined
    step      0, length, bytes                                 these bytes: braces, names, separators, a schema's id
              1                                                the next text of the cell `value_rest`
              2, encoding, path, has_null, null, before        the cell of a typed column
    rest      length, bytes for each step 1

Lengths are varints (varint.py), encodings one ASCII letter, paths, `null` and `before` bytes with their length. A cell
that is null makes `null`; another one makes `before` and its encoding:

    i  decimal integer              d  shortest decimal that is read as this double, as Python writes it
    t  true, false                  n  the same, but integers without a fraction, as JavaScript
    s  JSON text in UTF-8           1 to 9  decimal with that number of digits after the point
    a  JSON text in ASCII
    z  zigzag varint                u  unsigned varint of the two's complement, 64 bits
    m  zigzag varint, thousandth    l  zigzag varint of the length, bytes        p  unsigned varint of the length, bytes
    B  one byte, 0 or 1             F D  float and double, little endian         w q  int32 and int64, little endian

A writer uses a recipe only where it makes the value's own bytes; whoever reads checks the CRC of a row group's values
(docs/formats/segment.md, docs/decisions/0057).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, NamedTuple

from odradek.errors import FormatError
from odradek.format.varint import decode_varint, encode_varlong, encode_varlongs

_BYTES, _REST, _CELL = range(3)
_PLAIN_TEXT = re.compile(rb"[ !#-\[\]-~]*+")  # no character of it has another form in JSON
_INTEGERS_MAX = 1e21  # from here on JavaScript writes an exponent


class CellStep(NamedTuple):
    """A cell of a typed column, named by the path of its leaf.

    Attributes:
        null: what a cell that is null makes; None: there is none.
    """

    encoding: str
    path: str
    null: bytes | None
    before: bytes


Step = bytes | CellStep | None  # None: the next text of the rest
Recipe = Sequence[Step]
Cells = Sequence[Any]  # int, float, bool or bytes; None: null


def encode_recipe(recipe: Recipe) -> bytes:
    """Encode a recipe."""
    parts = []
    for step in recipe:
        if step is None:
            parts.append(bytes((_REST,)))
        elif isinstance(step, bytes):
            parts += (bytes((_BYTES,)), _sized(step))
        else:
            parts += (bytes((_CELL,)), step.encoding.encode(), _sized(step.path.encode()))
            parts += (bytes((step.null is not None,)), _sized(step.null or b""), _sized(step.before))
    return b"".join(parts)


def decode_recipe(data: bytes) -> list[Step]:
    """Decode a recipe. Raises FormatError."""
    steps: list[Step] = []
    at = 0
    try:
        while at < len(data):
            code, at = data[at], at + 1
            if code == _REST:
                steps.append(None)
            elif code == _BYTES:
                text, at = _taken(data, at)
                steps.append(text)
            elif code == _CELL:
                encoding, at = chr(data[at]), at + 1
                path, at = _taken(data, at)
                has_null, at = data[at], at + 1
                null, at = _taken(data, at)
                before, at = _taken(data, at)
                if encoding not in _ENCODINGS:
                    raise FormatError(f"a recipe has the encoding {encoding!r}, which this release does not know")
                steps.append(CellStep(encoding, path.decode(), null if has_null else None, before))
            else:
                raise FormatError(f"a recipe has a step of kind {code}, which this release does not know")
    except (IndexError, UnicodeDecodeError):
        raise FormatError("a recipe ends within a step") from None
    return steps


def encode_rest(texts: Sequence[bytes]) -> bytes:
    """Encode the texts of a value's rest."""
    lengths = encode_varlongs(list(map(len, texts)))
    return b"".join(chain.from_iterable(zip(lengths, texts, strict=True)))


def encoded_cells(encoding: str, cells: Cells, null: bytes | None = None, before: bytes = b"") -> list[bytes]:
    """Return what each cell makes. Raises FormatError if one makes nothing."""
    has_null = None in cells
    if has_null and null is None:
        raise FormatError("a cell is null, and its recipe says nothing of that")
    present = [cell for cell in cells if cell is not None] if has_null else cells
    try:
        made = _ENCODINGS[encoding](present) if present else []
    except (ValueError, TypeError, OverflowError, struct.error) as error:
        raise FormatError(f"a cell cannot be encoded as its recipe says: {error}") from None
    if before:
        made = [before + text for text in made]
    if not has_null:
        return made
    following = iter(made)
    return [null or b"" if cell is None else next(following) for cell in cells]


def made_again(
    recipes: Sequence[bytes | None],
    rests: Sequence[bytes | None],
    kept: Sequence[bytes | None],
    cells_of: Callable[[str], Cells],
) -> list[bytes | None]:
    """Return the values of rows: by their recipes, or as they were kept where there is none.

    Args:
        cells_of: the cells of all rows in the typed column of a path; raises KeyError.

    Raises FormatError if the columns do not belong together.
    """
    rows_of: dict[bytes, list[int]] = {}
    for row, packed in enumerate(recipes):
        if packed is not None:
            rows_of.setdefault(packed, []).append(row)
    values = list(kept)
    for packed, rows in rows_of.items():
        is_all = len(rows) == len(values)
        columns: list[list[bytes]] = []
        form = []
        recipe = _known(packed)
        count = recipe.count(None)
        texts = zip(*(_texts(rests[row], count) for row in rows), strict=True) if count else iter(())
        for step in recipe:
            if isinstance(step, bytes):
                form.append(step.replace(b"%", b"%%"))
                continue
            form.append(b"%b")
            if step is None:
                columns.append(list(next(texts)))
                continue
            try:
                cells = cells_of(step.path)
            except KeyError:
                raise FormatError(f"a recipe names {step.path}, which no readable column is") from None
            if len(cells) != len(values):
                raise FormatError(f"the column {step.path} has {len(cells)} cells, {len(values)} rows exist")
            some = cells if is_all else [cells[row] for row in rows]
            columns.append(encoded_cells(step.encoding, some, step.null, step.before))
        made = list(map(b"".join(form).__mod__, zip(*columns, strict=False)))
        if {len(rows)} != {len(made), *map(len, columns)}:
            raise FormatError("a recipe makes nothing, or of columns that do not belong together")
        if is_all:
            return [*made]
        for row, value in zip(rows, made, strict=True):
            values[row] = value
    return values


@lru_cache(1024)
def _known(packed: bytes) -> tuple[Step, ...]:
    return tuple(decode_recipe(packed))


def _sized(data: bytes) -> bytes:
    return encode_varlong(len(data)) + data


def _taken(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = decode_varint(data, at)
    if not 0 <= length <= len(data) - at:
        raise IndexError
    return data[at : at + length], at + length


def _texts(rest_bytes: bytes | None, count: int) -> list[bytes]:
    data = rest_bytes or b""
    texts = []
    at = 0
    try:
        for _ in range(count):
            length = data[at]
            if length < 0x80:  # a varint of one byte, as nearly all are
                at, length = at + 1, (length >> 1) ^ -(length & 1)
            else:
                length, at = decode_varint(data, at)
            end = at + length
            if not at <= end <= len(data):
                raise IndexError
            texts.append(data[at:end])
            at = end
    except IndexError:
        raise FormatError("the rest of a value ends within a text") from None
    return texts


# --- encodings --------------------------------------------------------------------------------------------------------


def _json_texts(encode: Callable[[str], str]) -> Callable[[Sequence[bytes]], list[bytes]]:
    def made(cells: Sequence[bytes]) -> list[bytes]:
        if _PLAIN_TEXT.fullmatch(b"".join(cells)):
            return [b'"%b"' % cell for cell in cells]
        return [encode(cell.decode()).encode() for cell in cells]

    return made


def _doubles(cells: Cells) -> list[bytes]:
    return [repr(cell).encode() for cell in cells]


def _numbers(cells: Cells) -> list[bytes]:
    return [b"%d" % cell if cell.is_integer() and abs(cell) < _INTEGERS_MAX else repr(cell).encode() for cell in cells]


def _fixed(digits: int) -> Callable[[Cells], list[bytes]]:
    form = f"%.{digits}f".encode()
    return lambda cells: list(map(form.__mod__, cells))


def _unsigned(number: int) -> bytes:
    number &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _packed(form: str) -> Callable[[Cells], list[bytes]]:
    pack = struct.Struct(form).pack
    return lambda cells: list(map(pack, cells))


_ENCODINGS: dict[str, Callable[[Any], list[bytes]]] = {
    "i": lambda cells: list(map(b"%d".__mod__, cells)),
    "t": lambda cells: [b"true" if cell else b"false" for cell in cells],
    "s": _json_texts(encode_basestring),
    "a": _json_texts(encode_basestring_ascii),
    "d": _doubles,
    "n": _numbers,
    **{str(digits): _fixed(digits) for digits in range(1, 10)},
    "z": encode_varlongs,
    "u": lambda cells: list(map(_unsigned, cells)),
    "m": lambda cells: encode_varlongs([cell // 1000 for cell in cells]),
    "l": lambda cells: [size + cell for size, cell in zip(encode_varlongs(list(map(len, cells))), cells, strict=True)],
    "p": lambda cells: [_unsigned(len(cell)) + cell for cell in cells],
    "B": lambda cells: [b"\1" if cell else b"\0" for cell in cells],
    "F": _packed("<f"),
    "D": _packed("<d"),
    "w": _packed("<i"),
    "q": _packed("<q"),
}
