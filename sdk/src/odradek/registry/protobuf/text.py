"""Parsing the text of a .proto file (proto2 and proto3) to a `File`. Pure; every text gives a file or SchemaInvalid.

Services and extensions are not parsed and kept as text. Groups and editions are refused: no serializer that is
supported writes them. Source: Protocol Buffers language specification, proto2 and proto3.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from dataclasses import replace

from odradek.registry.errors import SchemaInvalid
from odradek.registry.protobuf.files import SCALARS, Enum, Field, File, Message
from odradek.registry.protobuf.meta import folded

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<word>[A-Za-z_][\w.]*|\.[A-Za-z_][\w.]*)
    | (?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?))
    | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<sign>[-{}()\[\]<>;,=:+/.])""",
    re.VERBOSE | re.DOTALL,
)
_DEPTH_MAX = 32
_NUMBER_BITS_MAX = 64
_LABELS = ("optional", "required", "repeated")
_KEYS = frozenset(SCALARS) - {"double", "float", "bytes"}

Options = list[tuple[str, str]]


def parse_text(text: str) -> File:
    """Parse a file. Raises SchemaInvalid, whose message names the line."""
    return _Parser(text).file()


def _unquoted(text: str) -> str:
    """Return what a string literal stands for. Raises ValueError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of escapes that only .proto files allow
            string = str(ast.literal_eval(text))
        string.encode()
        return string
    except SyntaxError as error:
        raise ValueError(text) from error


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str, int]] = []  # kind, text, line
        self._next = 0
        position, line = 0, 1
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise SchemaInvalid(f"line {line}: {text[position : position + 20]!r} is not valid here")
            if match.lastgroup is not None:
                self._tokens.append((match.lastgroup, match.group(), line))
            line += match.group().count("\n")
            position = match.end()
        self._tokens.append(("end", "the end of the text", line))

    # --- tokens -------------------------------------------------------------------------------------------------------

    def _peek(self) -> str:
        lexeme_type, text, _ = self._tokens[self._next]
        return "" if lexeme_type == "end" else text

    def _wrong(self, wanted: str) -> SchemaInvalid:
        _, text, line = self._tokens[self._next]
        return SchemaInvalid(f"line {line}: expected {wanted}, not {text[:40]!r}")

    def _take(self, lexeme_type: str, wanted: str) -> str:
        actual_type, text, _ = self._tokens[self._next]
        if actual_type != lexeme_type:
            raise self._wrong(wanted)
        self._next += 1
        return text

    def _is(self, sign: str) -> bool:
        """Consume the next token if it is this one, and return True."""
        if self._peek() != sign:
            return False
        self._next += 1
        return True

    def _must(self, sign: str) -> None:
        if not self._is(sign):
            raise self._wrong(repr(sign))

    def _word(self) -> str:
        return self._take("word", "a name")

    def _string(self) -> str:
        parts = [self._take("string", "a string")]
        while self._tokens[self._next][0] == "string":
            parts.append(self._take("string", "a string"))
        try:
            return "".join(map(_unquoted, parts))
        except ValueError:
            raise self._wrong("a string with valid escapes before this") from None

    def _integer(self) -> int:
        negative = self._is("-")
        text = self._take("number", "a number")
        try:
            number = int(text, 8) if re.fullmatch(r"[-+]?0\d+", text) else int(text, 0)
        except ValueError:
            raise self._wrong("a whole number") from None
        if number.bit_length() > _NUMBER_BITS_MAX:
            raise self._wrong(f"a number of at most {_NUMBER_BITS_MAX} bits before this")
        return -number if negative else number

    def _constant(self) -> str:
        """Return the value of an option as text; an aggregate as its tokens."""
        lexeme_type, text, _ = self._tokens[self._next]
        if lexeme_type == "string":
            return json.dumps(self._string())
        if text == "{":
            return self._block()
        if lexeme_type in ("word", "number"):
            self._next += 1
            return text
        if text in ("-", "+"):
            self._next += 1
            return ("-" if text == "-" else "") + self._constant()
        raise self._wrong("a value")

    def _block(self) -> str:
        """Return everything up to the matching closing brace."""
        begin, depth = self._next, 0
        while True:
            lexeme_type, text, _ = self._tokens[self._next]
            if lexeme_type == "end":
                raise self._wrong("'}'")
            self._next += 1
            depth += {"{": 1, "}": -1}.get(text, 0)
            if depth == 0:
                return " ".join(text for _, text, _ in self._tokens[begin : self._next])

    # --- declarations -------------------------------------------------------------------------------------------------

    def file(self) -> File:
        made = File()
        messages: list[Message] = []
        enums: list[Enum] = []
        imports: list[tuple[str, str]] = []
        options: Options = []
        others: list[str] = []
        while self._peek():
            word = self._peek()
            if self._is(";"):
                continue
            if self._is("syntax"):
                self._must("=")
                syntax = self._string()
                if syntax not in ("proto2", "proto3"):
                    raise SchemaInvalid(f"syntax {syntax!r} is not proto2 or proto3")
                made = replace(made, syntax=syntax)
                self._must(";")
            elif word == "edition":
                raise SchemaInvalid("editions are not supported: write proto2 or proto3")
            elif self._is("package"):
                made = replace(made, package=self._word())
                self._must(";")
            elif self._is("import"):
                modifier = next((word for word in ("public", "weak") if self._is(word)), "")
                imports.append((self._string(), modifier))
                self._must(";")
            elif self._is("option"):
                options.append(self._option())
                self._must(";")
            elif self._is("message"):
                messages.append(self._message(0))
            elif self._is("enum"):
                enums.append(self._enum())
            elif word in ("service", "extend"):
                self._next += 1
                others.append(f"{word} {self._word()} {self._block()}")
            else:
                raise self._wrong("a declaration")
        return replace(
            made, messages=tuple(messages), enums=tuple(enums), imports=tuple(imports),
            options=folded(options, _unquoted), others=tuple(others),
        )  # fmt: skip

    def _option(self) -> tuple[str, str]:
        name = ""
        while not self._is("="):
            if self._is("("):
                name += f"({self._word()})"
                self._must(")")
            else:
                name += self._word() if self._tokens[self._next][0] == "word" else self._take("sign", "a name")
        return name, self._constant()

    def _options(self) -> Options:
        options: Options = []
        if self._is("["):
            while True:
                options.append(self._option())
                if self._is("]"):
                    break
                self._must(",")
        return options

    def _message(self, depth: int) -> Message:
        if depth > _DEPTH_MAX:
            raise SchemaInvalid(f"messages are nested deeper than {_DEPTH_MAX}")
        name = self._word()
        self._must("{")
        fields: list[Field] = []
        messages: list[Message] = []
        enums: list[Enum] = []
        oneofs: list[str] = []
        reserved: list[str] = []
        options: Options = []
        while not self._is("}"):
            if self._is(";"):
                continue
            following = self._tokens[self._next + 1][0] if self._peek() else "end"
            if self._peek() == "message" and following == "word":
                self._next += 1
                messages.append(self._message(depth + 1))
            elif self._peek() == "enum" and following == "word":
                self._next += 1
                enums.append(self._enum())
            elif self._peek() == "oneof" and following == "word":
                self._next += 1
                oneof = self._word()
                oneofs.append(oneof)
                fields += self._oneof(oneof)
            elif self._peek() == "option":
                self._next += 1
                options.append(self._option())
                self._must(";")
            elif self._peek() in ("reserved", "extensions") and self._tokens[self._next + 1][0] in ("number", "string"):
                prefix = "" if self._peek() == "reserved" else "extensions "
                self._next += 1
                ranges = self._ranges()
                if prefix:
                    options += [("extensions", span) for span in ranges]
                else:
                    reserved += ranges
            elif self._peek() == "extend" and following == "word":
                self._next += 1
                options.append(("extend", f"{self._word()} {self._block()}"))
            else:
                fields.append(self._field(""))
        return Message(
            name, tuple(fields), tuple(messages), tuple(enums), tuple(oneofs), tuple(reserved),
            folded(options, _unquoted),
        )  # fmt: skip

    def _oneof(self, name: str) -> list[Field]:
        fields = []
        self._must("{")
        while not self._is("}"):
            if self._is(";"):
                continue
            if self._is("option"):
                self._option()
                self._must(";")
                continue
            fields.append(self._field(name))
        return fields

    def _field(self, oneof: str) -> Field:
        label = ""
        if not oneof and self._peek() in _LABELS:
            label = self._word()
        if self._peek() == "group":
            raise SchemaInvalid("groups are not supported: use a message")
        field_type, key = self._word(), ""
        if field_type == "map" and self._is("<"):
            key = self._word()
            self._must(",")
            field_type = self._word()
            self._must(">")
            if key not in _KEYS or label or oneof:
                raise SchemaInvalid(f"line {self._tokens[self._next][2]}: this is not a map")
            label = "repeated"
        name = self._word()
        self._must("=")
        number = self._integer()
        options = self._options()
        self._must(";")
        default = next((value for option, value in options if option == "default"), "")
        kept = [option for option in options if option[0] != "default" and option[0] != "json_name"]
        return Field(name, number, field_type, label, oneof, key, default, folded(kept, _unquoted))

    def _enum(self) -> Enum:
        name = self._word()
        self._must("{")
        values: list[tuple[str, int]] = []
        options: Options = []
        reserved: list[str] = []
        while not self._is("}"):
            if self._is(";"):
                continue
            if self._is("option"):
                options.append(self._option())
                self._must(";")
            elif self._peek() == "reserved" and self._tokens[self._next + 1][1] != "=":
                self._next += 1
                reserved += self._ranges()
            else:
                value = self._word()
                self._must("=")
                values.append((value, self._integer()))
                self._options()
                self._must(";")
        return Enum(name, tuple(values), folded(options, _unquoted), tuple(reserved))

    def _ranges(self) -> list[str]:
        ranges = []
        while True:
            if self._tokens[self._next][0] == "string":
                ranges.append(json.dumps(self._string()))
            else:
                first = self._integer()
                last: int | str = first
                if self._is("to"):
                    last = "max" if self._is("max") else self._integer()
                ranges.append(f"{first}" if last == first else f"{first} to {last}")
            self._options()
            if self._is(";"):
                return ranges
            self._must(",")
