"""Fill the tables of options in docs/connect from the definitions in the code. `make reference`.

A page has a comment `<!-- options: KIND NAME -->`, where KIND is connectors, converters, transforms, predicates or
settings, and `<!-- end -->`; what is between them is generated. tests/unit/connect/test_docs.py compares the pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from odradek.connect import plugins, settings
from odradek.connect.config import ConfigDef, ConfigKey

from tools.reference import table

FOLDER = Path(__file__).parent.parent / "docs" / "connect"
MARK = re.compile(r"(<!-- options: (\w+) (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
_SETTINGS = {
    "worker": settings.WORKER,
    "connector": settings.CONNECTOR,
    "source": settings.SOURCE,
    "sink": settings.SINK,
}


def definitions(category: str, name: str) -> ConfigDef:
    """Return the definitions that a mark names. Raises KeyError, ConfigError."""
    if category == "settings":
        return _SETTINGS[name]
    return plugins.find(cast(plugins.Category, category), name).load().config_def


def filled(text: str) -> str:
    """Return a page with its tables written from the code."""
    return MARK.sub(lambda match: f"{match[1]}{_options(definitions(match[2], match[3]))}\n{match[4]}", text)


def _options(keys: ConfigDef) -> str:
    if not keys.keys:
        return "\nIt has no options.\n"
    return "\n" + table(_rows(keys))


def _rows(keys: ConfigDef) -> Iterator[tuple[str, ...]]:
    yield "option", "type", "default", "allowed", "effect"
    for key in keys:
        also = f" Also: {', '.join(f'`{name}`' for name in key.also)}." if key.also else ""
        allowed = key.allowed.words if key.allowed is not None else ""
        yield f"`{key.name}`", key.kind.value.lower(), _default(key), allowed, key.documentation + also


def _default(key: ConfigKey) -> str:
    if key.is_required:
        return "required"
    if key.default is None or key.default in ("", []):
        return ""
    if isinstance(key.default, bool):
        return str(key.default).lower()
    return f"`{','.join(map(str, key.default)) if isinstance(key.default, list) else key.default}`"


def main() -> None:
    for path in sorted(FOLDER.glob("*.md")):
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"written: {FOLDER}")


if __name__ == "__main__":
    main()
