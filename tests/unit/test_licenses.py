"""Components that ship with Odradek, and their licences."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, metadata

from tests.support.counted import at_least
from tools.package import ROOT, run_uv

PERMISSIVE = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT",
    "MIT-0", "MIT-CMU", "PSF-2.0", "Zlib",
}  # fmt: skip
# The page says why they are there all the same.
EXPLAINED = {
    "psycopg": "LGPL-3.0-only",
    "psycopg-binary": "LGPL-3.0-only",
    "crc32c": "LGPL-2.1-or-later",
    "certifi": "MPL-2.0",
    "paho-mqtt": "EPL-2.0 OR BSD-3-Clause",
}


def listed() -> dict[str, str]:
    page = (ROOT / "docs" / "licenses.md").read_text()
    return dict(re.findall(r"^\| ([a-z0-9-]+) \| ([A-Za-z0-9. ()-]+) \|$", page, re.MULTILINE)[1:])


def shipped() -> set[str]:
    """Every package that the wheel asks for, with all extras."""
    export = run_uv(
        *("export", "--quiet", "--frozen", "--no-default-groups", "--package", "odradek", "--all-extras"),
        *("--no-emit-workspace", "--no-header", "--no-annotate", "--no-hashes"),
    )
    return {line.partition("==")[0] for line in export.splitlines() if line}


def test_every_package_that_ships_is_listed() -> None:
    assert set(listed()) == shipped()


def test_what_is_not_permissive_is_explained() -> None:
    for name, licence in listed().items():
        parts = set(re.split(r" AND | OR ", licence))
        assert parts <= PERMISSIVE or EXPLAINED.get(name) == licence, (name, licence)
    page = (ROOT / "docs" / "licenses.md").read_text()
    assert all(f"**{name}** ({licence})" in page for name, licence in EXPLAINED.items())


def test_the_list_says_what_the_packages_say() -> None:
    """Of those that name their licence as an expression; the others use words."""
    for name, licence in at_least(10, listed().items()):
        try:
            said = metadata(name).get("License-Expression")
        except PackageNotFoundError:
            continue  # for another platform
        assert said in (None, licence), name
