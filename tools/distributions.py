"""The distributions of sdk/, as their pyproject.toml files declare them: each module of one tree is in one of them.

docs/decisions/0088 has the reasons. tests/unit/test_distributions.py asserts that they divide the tree, and that a
module imports nothing that its distribution does not require.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "sdk" / "src"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution: its sources, and what it requires of the others."""

    name: str
    version: str
    folder: Path
    included: tuple[str, ...]  # files and folders, relative to `folder`
    excluded: tuple[str, ...]
    requires: frozenset[str]  # distributions of sdk/, without those of its extras

    @property
    def wheel(self) -> str:
        """The name as it begins the file names of its wheels."""
        return self.name.replace("-", "_")

    def files(self) -> Iterator[Path]:
        """Yield what it installs, relative to SOURCES."""
        for included in self.included:
            path = self.folder / included
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                relative = file.relative_to(self.folder)
                is_excluded = any(relative.is_relative_to(excluded) for excluded in self.excluded)
                if file.is_file() and "__pycache__" not in file.parts and not is_excluded:
                    yield relative.relative_to("src")

    def modules(self) -> Iterator[Path]:
        """Yield its Python files, relative to SOURCES."""
        return (file for file in self.files() if file.suffix == ".py")


def distributions() -> dict[str, Distribution]:
    """Return the distributions by name, the client's first."""
    files = [ROOT / "sdk" / "pyproject.toml", *sorted((ROOT / "sdk").glob("*/pyproject.toml"))]
    read = [_read(file) for file in files]
    return {distribution.name: distribution for distribution in read}


def _read(file: Path) -> Distribution:
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    project, build = content["project"], content["tool"]["hatch"]["build"]
    names = {re.split(r"[\[=<> ]", requirement)[0] for requirement in project["dependencies"]}
    return Distribution(
        name=project["name"],
        version=project["version"],
        folder=file.parent,
        included=tuple(build["only-include"]),
        excluded=tuple(build.get("exclude", ())),
        requires=frozenset(name for name in names if name.split("-")[0] == "odradek"),
    )
