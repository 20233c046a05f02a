"""HTML by Jinja, with everything escaped, and what templates need to show numbers, sizes and times."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_STATIC = Path(__file__).parent / "static"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_PREVIEW = 240


# Attributes that hold a path of this console. In values a quotation mark is escaped: none of them can look like this.
_LINK = re.compile(r'(\s(?:href|action|formaction|data-events|data-check|data-words|data-base|data-saved)=")(?=/)')
_OF_ALL = ("/static/", "/clusters/")


class Templates:
    """The templates of the console. Names that a template does not know are errors, never empty text.

    Args:
        prefix: that stands before the path of every link: of another cluster (clusters.py).
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def render(self, template: str, /, **values: Any) -> str:
        """Return a template with values."""
        html = _environment().get_template(template).render(**values)
        return prefixed(html, self._prefix) if self._prefix else html


def prefixed(html: str, prefix: str) -> str:
    """Put a prefix before the path of every link, but for those that all clusters share."""
    return _LINK.sub(
        lambda link: link[0] if link.string.startswith(_OF_ALL, link.end()) else link[0] + prefix, html
    )  # fmt: skip


@lru_cache
def _environment() -> Environment:
    """Compile each template once a process: that takes longer than to render it."""
    environment = Environment(
        loader=PackageLoader("odradek.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "bytes": size,
        "moment": moment,
        "duration": duration,
        "preview": preview,
        "quoted": lambda text: quote(str(text), safe=""),
        "money": lambda value: f"{value:,.2f}",
    }
    environment.globals |= {"asset": asset, "url": url, "in_words": in_words}
    return environment


@lru_cache
def asset(name: str) -> str:
    """Return the path of a static file, with a digest of its contents, so that browsers may keep it for ever."""
    digest = hashlib.sha256((_STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


def url(path: str, **query: Any) -> str:
    """Return a path with a query; empty values are left out."""
    pairs = [
        (name, str(value)) for name, value in query.items() if value is not None and value is not False and value != ""
    ]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def number(value: Any) -> str:
    """Return a number with thousands separated, "–" for None."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if not isinstance(value, float) or value >= 100 else f"{value:,.2g}"


def size(value: int | float | None) -> str:
    """Return bytes in the largest unit that fits, "–" for None."""
    if value is None:
        return "–"
    amount, unit = float(value), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} {_UNITS[unit]}" if unit == 0 or amount >= 100 else f"{amount:.1f} {_UNITS[unit]}"


def time_text(timestamp_ms: int | None) -> str:
    """Return a time in UTC to the millisecond; the number itself where no calendar has it."""
    if timestamp_ms is None:
        return "–"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"


def moment(timestamp_ms: int | None, zone: str = "") -> Markup:
    """Return a time in UTC as an element, beside which the page's script writes the local one; "–" for None."""
    if timestamp_ms is None:
        return Markup("–")
    return Markup('<time data-ms="{}">{}</time>').format(timestamp_ms, f"{time_text(timestamp_ms)} {zone}".strip())


def duration(ms: int | None) -> str:
    """Return a duration in its two largest units, "–" for None."""
    if ms is None:
        return "–"
    seconds = ms // 1000
    parts = []
    for name, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= length:
            parts.append(f"{seconds // length} {name}")
            seconds %= length
    return " ".join(parts[:2]) or f"{ms} ms"


def in_words(name: str, value: str | None) -> str:
    """Return what a configuration's value means where its unit is in the name: "7 d" for 604800000 ms; else ""."""
    if value is None or not re.fullmatch(r"-?[0-9]{1,19}", value):
        return ""
    amount = int(value)
    if amount == -1 and name.startswith("retention."):
        return "unlimited"
    if amount == 2**63 - 1:
        return "no limit"
    if name.endswith(".ms") and amount >= 1_000:
        return duration(amount)
    return size(amount) if name.endswith(".bytes") and amount >= 1_024 else ""


def preview(text: str) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text[: 2 * _PREVIEW].split())
    return line if len(line) <= _PREVIEW else line[:_PREVIEW] + "…"
