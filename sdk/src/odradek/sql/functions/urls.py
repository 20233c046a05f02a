"""Functions of URLs. What a URL is, and its parts, are java.net.URI's: RFC 2396 with any characters beyond ASCII.

    scheme ":" "//" authority path "?" query "#" fragment       each part but the path may be missing
    scheme ":" anything                                         such as mailto:a@b.example: no path, host or query

A part is decoded: %20 is a space, but + is a plus. A text that is no URL is an error (raising.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.sql.functions.signature import Function, template, text_of
from odradek.sql.types import INT, VARCHAR, Rendered, SqlType

_LETTERS = r"A-Za-z0-9_\-!.~'()*"
_OTHER = r"[^\u0000-\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]"  # beyond ASCII, and not a space


def _of(more: str, how_many: str = "*") -> str:
    """Return letters, escapes and some more characters. Possessive: none of them may follow."""
    return rf"(?:[{_LETTERS}{more}{_OTHER}]++|%[0-9A-Fa-f]{{2}}){how_many}+"


_SCHEME = "[A-Za-z][A-Za-z0-9+.-]*"
_USER = rf"(?:{_of(';:&=+$,')}@)?"
_IPV6 = r"\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.~-]+)?\]"
_AUTHORITY = rf"(?:{_of('$,;:@&=+', '+')}(?=[/?#]|\z)|{_USER}{_IPV6}(?::[0-9]*)?(?=[/?#]|\z)|(?=[/?#]))"
_ANY = r";/?:@&=+$,\[\]"
_HIERARCHY = rf"(?://{_AUTHORITY}|(?!//)){_of(':@&=+$,;/')}(?:\?{_of(_ANY)})?"
_URL = rf"^(?:{_SCHEME}:(?:(?=/){_HIERARCHY}|(?!/){_of(_ANY, '+')})|(?![^/?#:]*:){_HIERARCHY})(?:#{_of(_ANY)})?\z"
IS_URL = text_of(_URL)

_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_HOST = rf"(?:{_BYTE}\.){{3}}{_BYTE}|(?:(?:{_LABEL}\.)+[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?|{_LABEL})\.?|{_IPV6}"
_BEFORE = rf"^(?:{_SCHEME}:)?"
_SERVER = text_of(rf"{_BEFORE}//{_USER}({_HOST})(?::([0-9]*))?(?=[/?#]|\z)")
_PATH = text_of(rf"{_BEFORE}(?://[^/?#]*)?([^?#]*)")
_OPAQUE = text_of(rf"^{_SCHEME}:[^/]")


def _decoded(text: str) -> str:
    return f"try_url_decode(replace({text}, '+', '%2B'))"


def _part(found: str, where: str = "TRUE") -> str:
    test = f"{{0}} RLIKE {IS_URL}" if where == "TRUE" else f"{{0}} RLIKE {IS_URL} AND {where}"
    return f"IF({test}, {found}, NULL)"


_QUERY = _part(
    _decoded(f"regexp_extract({{0}}, {text_of(r'^[^?#]*[?]([^#]*)')}, 1)"),
    f"{{0}} RLIKE {text_of(r'^[^?#]*[?]')} AND NOT {{0}} RLIKE {_OPAQUE}",
)


def _parameter(arguments: Sequence[Rendered]) -> Rendered:
    url, name = (each.text for each in arguments)
    pieces = f"split({_QUERY.replace('{0}', url)}, '&', -1)"
    named = f"filter({pieces}, x -> substring_index(x, '=', 1) = {name})"
    return Rendered(f"substring(try_element_at({named}, 1), length({name}) + 2)", VARCHAR)


def _url(name: str, text: str, kind: SqlType = VARCHAR) -> Function:
    def render(arguments: Sequence[Rendered]) -> Rendered:
        return Rendered(text.replace("{0}", arguments[0].text), kind)

    return Function(name, 1, 1, render, ("text",))


URLS = [
    template("URL_ENCODE_PARAM", "url_encode({0})", 1, 1, VARCHAR, "text"),
    template("URL_DECODE_PARAM", "try_url_decode({0})", 1, 1, VARCHAR, "text"),
    _url("URL_EXTRACT_FRAGMENT", _part(_decoded("substring({0}, instr({0}, '#') + 1)"), "instr({0}, '#') > 0")),
    _url("URL_EXTRACT_HOST", _part(f"nullif(regexp_extract({{0}}, {_SERVER}, 1), '')")),
    Function("URL_EXTRACT_PARAMETER", 2, 2, _parameter, ("text",)),
    _url("URL_EXTRACT_PATH", _part(_decoded(f"regexp_extract({{0}}, {_PATH}, 1)"), f"NOT {{0}} RLIKE {_OPAQUE}")),
    _url("URL_EXTRACT_PORT", _part(f"try_cast(regexp_extract({{0}}, {_SERVER}, 2) AS INT)"), INT),
    _url("URL_EXTRACT_PROTOCOL", _part(f"nullif(regexp_extract({{0}}, {text_of(f'^({_SCHEME}):')}, 1), '')")),
    _url("URL_EXTRACT_QUERY", _QUERY),
]
