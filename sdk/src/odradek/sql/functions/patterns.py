"""Regular expressions of Java, as far as a plan must know them before Spark does: can one be compiled, and how many
groups has it? Pure.

In ksqlDB a pattern that cannot be compiled is an error of the record; Spark would end the query. A pattern that is
written in the script is looked at once, when it is planned; one from a column by functions in Python (in_python.py).
Known by java.util.regex.Pattern: what is an error there is one here, but for lookbehinds without a largest length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

NO_PATTERN = "ksql_no_pattern"  # of a text: TRUE if it is no pattern
_NO_REPLACEMENT = "ksql_no_replacement"
_HAS_GROUP = "ksql_has_group"
_ESCAPES = frozenset("tnrfaedDhHsSvVwWbBAGZzRX")
_NOT_IN_CLASS = frozenset("bBAGZzRX")
_PROPERTY = re.compile(
    r"[LMNPSZC]|L[DCltmou1]|M[nec]|N[dlo]|P[cdseiof]|S[mcko]|Z[slp]|C[cfosn]|all|"
    r"Lower|Upper|ASCII|Alpha|Digit|Alnum|Punct|Graph|Print|Blank|Cntrl|XDigit|Space|"
    r"java\w+|Is\w+|In[\w -]+|(?:script|sc|block|blk|general_category|gc)=[\w -]+"
)
_REPETITION = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_GROUP_NAME = re.compile(r"<([A-Za-z][A-Za-z0-9]*)>")
_FLAGS = re.compile(r"[idmsuxU]*(?:-[idmsuxU]*)?([:)])")


class _Wrong(Exception):
    pass


@dataclass
class _Open:
    """A parenthesis that is open, or the pattern itself."""

    own: list[int] = field(default_factory=list)  # its number, if it is a group
    inner: list[int] = field(default_factory=list)  # groups in it
    has_choice: bool = False
    is_negative: bool = False  # a negative lookaround


class _Pattern:
    """A scan of one pattern. Raises _Wrong where Java cannot compile it."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.groups = text, 0, 0
        self.names: set[str] = set()
        self.optional: set[int] = set()  # groups that need not take part in a match
        self._open_groups: list[_Open] = [_Open()]
        self._scan()
        self._close(is_optional=False)

    def _scan(self) -> None:
        repeatable = False  # whether *, + and ? may follow
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == "\\":
                repeatable = self._escape() or repeatable
            elif char == "[":
                self._class()
                repeatable = True
            elif char == "(":
                self._open()
                repeatable = False
            elif char == ")":
                _check(len(self._open_groups) > 1)
                self._close(is_optional=self.text[self.at : self.at + 1] in ("?", "*") or self._is_next("{0"))
                repeatable = True
            elif char in "*+?{":
                _check(repeatable or char == "{")  # Java lets a number repeat nothing
                self._repetition(char)
                repeatable = False
            else:
                repeatable = char != "|"
                self._open_groups[-1].has_choice |= char == "|"
        _check(len(self._open_groups) == 1)

    def _is_next(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def _close(self, *, is_optional: bool) -> None:
        closed = self._open_groups.pop()
        if closed.has_choice:
            self.optional.update(closed.inner)
        if is_optional or closed.is_negative:
            self.optional.update(closed.inner, closed.own)
        if self._open_groups:
            self._open_groups[-1].inner += [*closed.own, *closed.inner]

    def _repetition(self, char: str) -> None:
        if char == "{":
            found = _REPETITION.match(self.text, self.at - 1)
            _check(found is not None)
            assert found is not None
            _check(not found[2] or int(found[1]) <= int(found[2]))
            self.at = found.end()
        if self.text[self.at : self.at + 1] in ("?", "+"):
            self.at += 1

    def _open(self) -> None:
        """Read what follows `(`; flags alone open nothing."""
        if not self._is_next("?"):
            self._count()
            return
        self.at += 1
        named = _GROUP_NAME.match(self.text, self.at)
        if named is not None:
            _check(named[1] not in self.names)
            self.names.add(named[1])
            self._count()
            self.at = named.end()
            return
        for lookaround in ("<=", "<!", ":", "=", "!", ">"):
            if self._is_next(lookaround):
                self.at += len(lookaround)
                self._open_groups.append(_Open(is_negative="!" in lookaround))
                return
        flags = _FLAGS.match(self.text, self.at)
        _check(flags is not None)
        assert flags is not None
        self.at = flags.end()
        if flags[1] == ":":
            self._open_groups.append(_Open())

    def _count(self) -> None:
        self.groups += 1
        self._open_groups.append(_Open(own=[self.groups]))

    def _escape(self, *, in_class: bool = False) -> bool:
        """Read what follows a backslash. Returns False if it is nothing that can be repeated."""
        _check(self.at < len(self.text))
        char = self.text[self.at]
        self.at += 1
        if char == "Q":
            end = self.text.find("\\E", self.at)
            is_empty = end == self.at
            self.at = len(self.text) if end < 0 else end + 2
            return not is_empty
        if char in "xuc0N":
            forms = {"x": r"[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]+\}", "u": "[0-9A-Fa-f]{4}", "c": ".", "0": "[0-7]{1,3}",
                     "N": r"\{[^}]+\}"}  # fmt: skip
            self._read(forms[char])
        elif char in "pP":
            name = self._read(r"\{[^}]*\}|.").strip("{}")
            _check(_PROPERTY.fullmatch(name.removeprefix("^")) is not None)
        elif char == "k":
            _check(not in_class and self._read(_GROUP_NAME.pattern)[1:-1] in self.names)
        elif char.isascii() and char.isalpha():
            _check(char in _ESCAPES and not (in_class and char in _NOT_IN_CLASS))
        return True

    def _read(self, form: str) -> str:
        found = re.compile(form, re.DOTALL).match(self.text, self.at)
        _check(found is not None)
        assert found is not None
        self.at = found.end()
        return found[0]

    def _class(self) -> None:
        """Read a class of characters up to its `]`; the first `]` stands for itself."""
        if self.text[self.at : self.at + 1] == "^":
            self.at += 1
        last, is_empty = "", True  # last: a single character, which may begin a range
        while True:
            _check(self.at < len(self.text))
            char = self.text[self.at]
            self.at += 1
            if char == "]" and not is_empty:
                return
            is_range = last and char == "-" and self.text[self.at : self.at + 1] not in ("]", "[", "")
            if is_range and self.text[self.at] != "\\":
                _check(last <= self.text[self.at])
                self.at += 1
                last = ""
            elif char == "[":
                self._class()
                last = ""
            elif char == "\\":
                self._escape(in_class=True)
                last = ""
            else:
                last = char
            is_empty = False


def groups_of(pattern: str) -> int | None:
    """Return the number of groups of a pattern; None if Java cannot compile it."""
    try:
        return _Pattern(pattern).groups
    except _Wrong:
        return None


def optional_groups(pattern: str) -> set[int]:
    """Return the groups of a pattern that need not take part in a match, such as 1 of `(a)?b`."""
    try:
        return _Pattern(pattern).optional
    except _Wrong:
        return set()


def can_replace(replacement: str, pattern: str) -> bool:
    r"""Return False if a match cannot be replaced: $n without such a group, a $ or \ before nothing it can mean."""
    try:
        known = _Pattern(pattern)
    except _Wrong:
        return False
    for found in re.finditer(r"\\(.?)|\$(?:(\d)|\{([^}]*)\})?", replacement, re.DOTALL):
        escaped, number, name = found.groups()
        if found[0].startswith("\\"):
            if not escaped:
                return False
        elif not (int(number) <= known.groups if number else name in known.names):
            return False
    return True


def no_replacement(replacement: str, pattern: str) -> str:
    """Return where a replacement cannot be used with a pattern, or this is none, as Spark SQL."""
    return f"{_NO_REPLACEMENT}(named_struct('new', {replacement}, 'pattern', {pattern}))"


def has_group(pattern: str, number: str) -> str:
    """Return whether a pattern has a group with a number, as Spark SQL; FALSE if it is none."""
    return f"{_HAS_GROUP}(named_struct('pattern', {pattern}, 'group', {number}))"


def _check(is_so: bool) -> None:
    if not is_so:
        raise _Wrong
