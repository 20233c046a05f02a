"""Values in JSON as forms: names, separators and white space are the form, scalars and arrays the texts.

A value is read member by member once for each form; then one regular expression of the form splits what looks alike.
Members that are structs of typed columns are part of the form; other objects, and arrays, are texts. Nothing here
decides whether a value is valid JSON: bytes and texts joined are the value in any case.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache

from odradek.columnar.recipes.forms import Form, Hole, KnownForms, Split
from odradek.model.kinds import Kind

_ENCODINGS = {
    **dict.fromkeys(("int", "bigint"), "i"),
    **dict.fromkeys(("float", "double"), "dn#"),
    "boolean": "t",
    "string": "sa",
}
_TRIED = 4  # forms that are tried before a value is read member by member
_DEPTH_MAX = 16

_TEXT = rb'"(?:[^"\\]++|\\.)*+"'
_FLAT = rb"(?:[^\[\]{}\"]++|%b)*+" % _TEXT  # what arrays and objects of scalars have
_BARE = rb'[^\s,:{}\[\]"]++'
_SCALAR = re.compile(rb"%b|%b" % (_TEXT, _BARE), re.DOTALL)
_HOLE = rb"(%b|%b|\[%b\]|\{%b\})" % (_TEXT, _BARE, _FLAT, _FLAT)
_MEMBER = re.compile(rb"[ \t\r\n]*+(%b)[ \t\r\n]*+:[ \t\r\n]*+" % _TEXT, re.DOTALL)
_NEXT = re.compile(rb"[ \t\r\n]*+([,}])")
_BOUNDS = re.compile(rb"%b|[\[\]{}]" % _TEXT, re.DOTALL)

Fields = Mapping[str, Kind]
Spans = list[tuple[int, int, Hole]]


class JsonForms:
    """Splits values in JSON.

    Args:
        fields: the fields that typed columns have, with their kinds.
        prefix_bytes: before the JSON, such as the id of a schema.
    """

    def __init__(self, fields: Fields, prefix_bytes: int) -> None:
        self._fields = fields
        self._prefix_bytes = prefix_bytes
        self._forms = KnownForms()
        self._holes: dict[tuple[str, ...], Hole] = {}
        self._patterns: OrderedDict[int, tuple[Form, re.Pattern[bytes]]] = OrderedDict()

    def split(self, value: bytes) -> Split | None:
        """See forms.Forms."""
        for number, (form, pattern) in enumerate(reversed(self._patterns.values())):
            if number == _TRIED:
                break
            match = pattern.fullmatch(value)
            if match is not None:
                if number:
                    self._patterns.move_to_end(id(form))
                return form, match.groups()
        try:
            spans: Spans = []
            self._object(value, self._prefix_bytes, self._fields, (), spans)
        except (ValueError, IndexError):
            return None
        split = self._forms.split(value, spans)
        if split is not None:
            form = split[0]
            if id(form) not in self._patterns:
                self._patterns[id(form)] = form, _pattern(form)
            self._patterns.move_to_end(id(form))
        return split

    def _object(self, value: bytes, at: int, fields: Fields, path: tuple[str, ...], spans: Spans) -> int:
        """Add the texts of an object that begins here. Return where it ends. Raises ValueError, IndexError."""
        if value[at : at + 1] != b"{" or len(path) > _DEPTH_MAX:
            raise ValueError("no object")
        at += 1
        while True:
            member = _MEMBER.match(value, at)
            if member is None:
                raise ValueError("no member")
            name, at = _name(member[1]), member.end()
            data_type = fields.get(name)
            if value[at] == 0x7B and data_type is not None and data_type.name == "struct":
                at = self._object(value, at, data_type.fields, (*path, name), spans)
            else:
                end = _end(value, at)
                spans.append((at, end, self._hole((*path, name) if data_type is not None else ())))
                at = end
            sign = _NEXT.match(value, at)
            if sign is None:
                raise ValueError("no sign after a member")
            at = sign.end()
            if sign[1] == b"}":
                return at

    def _hole(self, path: tuple[str, ...]) -> Hole:
        return self._holes.setdefault(path, Hole(path, _ENCODINGS, b"null"))


@lru_cache(4096)
def _name(text: bytes) -> str:
    name = json.loads(text)
    assert isinstance(name, str)
    return name


def _end(value: bytes, at: int) -> int:
    """Return where the scalar, array or object that begins here ends. Raises ValueError, IndexError."""
    if value[at] not in b"[{":
        scalar = _SCALAR.match(value, at)
        if scalar is None:
            raise ValueError("no value")
        return scalar.end()
    depth = 0
    for bound in _BOUNDS.finditer(value, at):
        sign = bound[0]
        if sign in b"[{":
            depth += 1
        elif sign in b"]}":
            depth -= 1
            if not depth:
                return bound.end()
    raise ValueError("no end")


def _pattern(form: Form) -> re.Pattern[bytes]:
    parts = map(re.escape, form.parts)
    return re.compile(next(parts) + b"".join(_HOLE + part for part in parts), re.DOTALL)
