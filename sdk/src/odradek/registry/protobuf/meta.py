"""Confluent's options of .proto files: a doc, parameters and tags of a file, message, field or enum. Pure.

    int32 a = 1 [(confluent.field_meta) = { doc: "how many", params: [{ key: "scale", value: "2" }], tags: "PII" }];
    int32 a = 1 [(confluent.field_meta).doc = "how many"];

In a descriptor such an option is the extension META_NUMBER of Google's options, a message (model/protobuf_types.py).
`folded` gives all spellings one text, which is that of a descriptor, too: so a schema is the same in both forms.
Source: confluent/meta.proto, "Text Format Language Specification" of the Protocol Buffers documentation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from odradek.registry.errors import SchemaInvalid

KINDS = ("file", "message", "field", "enum")  # whose options have it
Options = tuple[tuple[str, str], ...]
_OPTION = re.compile(rf"\(\.?confluent\.({'|'.join(KINDS)})_meta\)(?:\.(doc|params|tags))?")
_TOKEN = re.compile(
    r"""\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign>[{}<>\[\]:,;])|(?P<no>\S))"""
)


@dataclass(slots=True)
class Meta:
    """The content of one option."""

    doc: str = ""
    params: dict[str, str] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the one spelling of the option's value."""
        pairs = (f"{{ key : {_quoted(key)} , value : {_quoted(self.params[key])} }}" for key in sorted(self.params))
        parts = [
            f"doc : {_quoted(self.doc)}" if self.doc else "",
            f"params : [ {' , '.join(pairs)} ]" if self.params else "",
            f"tags : [ {' , '.join(map(_quoted, self.tags))} ]" if self.tags else "",
        ]
        return f"{{ {' , '.join(filter(None, parts))} }}"


def option_name(element: str) -> str:
    """Return the name of the option. Args: one of KINDS."""
    return f"(confluent.{element}_meta)"


def kind_of(name: str) -> str:
    """Return of what an option is, one of KINDS; empty if it is another option."""
    match = _OPTION.fullmatch(name)
    return "" if match is None else match[1]


def folded(options: Iterable[tuple[str, str]], unquoted: Callable[[str], str]) -> Options:
    """Return options with all of Confluent's of a kind as one, in its one spelling; what is no such value stays.

    Args:
        options: names and values as text, those of strings as JSON, messages as their tokens.
        unquoted: what a string in a message stands for. It may raise SchemaInvalid.
    """
    options = tuple(options)
    made: dict[str, Meta] = {}
    try:
        for name, value in options:
            match = _OPTION.fullmatch(name)
            if match is not None:
                _Reader(value, unquoted).add_to(made.setdefault(option_name(match[1]), Meta()), match[2] or "")
    except (SchemaInvalid, ValueError):
        return options
    if not made:
        return options
    kept = [option for option in options if not kind_of(option[0])]
    return (*kept, *((name, made[name].text()) for name in sorted(made)))


def read(text: str) -> Meta:
    """Return the value of an option that `folded` has spelled. Raises ValueError for another."""
    made = Meta()
    _Reader(text, json.loads).add_to(made, "")
    return made


def _quoted(text: str) -> str:
    return json.dumps(text)


class _Reader:
    """Reads the text form of an option's value. Raises ValueError for what is none."""

    def __init__(self, text: str, unquoted: Callable[[str], str]) -> None:
        self._tokens = [(str(token.lastgroup), token[str(token.lastgroup)]) for token in _TOKEN.finditer(text)]
        self._at = 0
        self._unquoted = unquoted

    def add_to(self, meta: Meta, name: str) -> None:
        """Add the whole text to what is known. Args: the field whose value the text is; empty: it is the message."""
        if name:
            self._value(meta, name)
        else:
            for field_name in self._message():
                self._value(meta, field_name)
        if self._at != len(self._tokens):
            raise ValueError("there is more")

    def _value(self, meta: Meta, name: str) -> None:
        if name == "doc":
            meta.doc = self._string()
        elif name == "tags":
            meta.tags += [self._string() for _ in self._elements()]
        elif name == "params":
            for _ in self._elements():
                entry = {"key": "", "value": ""}
                for field_name in self._message():
                    if field_name not in entry:
                        raise ValueError(field_name)
                    entry[field_name] = self._string()
                meta.params[entry["key"]] = entry["value"]
        else:
            raise ValueError(name)

    def _message(self) -> Iterator[str]:
        """Yield the names of a message's fields; the caller reads the value of each."""
        end = "}" if self._is("{") else ">" if self._is("<") else ""
        if not end:
            raise ValueError("a message was expected")
        while not self._is(end):
            lexeme_type, name = self._next()
            if lexeme_type != "name":
                raise ValueError(name)
            self._is(":")
            yield name
            if not self._is(","):
                self._is(";")

    def _elements(self) -> Iterator[None]:
        """Yield for each element, which the caller reads; for one without brackets once."""
        if not self._is("["):
            yield None
            return
        while not self._is("]"):
            yield None
            self._is(",")

    def _string(self) -> str:
        parts = []
        while self._at < len(self._tokens) and self._tokens[self._at][0] == "string":
            parts.append(self._unquoted(self._next()[1]))
        if not parts:
            raise ValueError("a string was expected")
        return "".join(parts)

    def _is(self, sign: str) -> bool:
        """Take the next token if it is this sign, and return True."""
        if self._at == len(self._tokens) or self._tokens[self._at] != ("sign", sign):
            return False
        self._at += 1
        return True

    def _next(self) -> tuple[str, str]:
        if self._at == len(self._tokens):
            raise ValueError("the text ends")
        self._at += 1
        return self._tokens[self._at - 1]
