"""The files of the repository, for tests that read them."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tracked() -> list[str]:
    """Files under version control; in a copy without it, all that are no product of a command."""
    git = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if git.returncode == 0 and git.stdout:
        return [name for name in git.stdout.splitlines() if (ROOT / name).is_file()]
    skipped = {".git", ".venv", "dist", "build", "cdk.out", "__pycache__", ".demo", ".odradek"}
    paths = (path for path in ROOT.rglob("*") if path.is_file() and not skipped & set(path.relative_to(ROOT).parts))
    return [path.relative_to(ROOT).as_posix() for path in paths]


FILES = tracked()
MODULES = [name for name in FILES if name.endswith(".py")]
PAGES = [name for name in FILES if name.endswith(".md")]


@cache
def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def trees(names: Sequence[str], hint: str) -> Iterator[tuple[str, ast.Module]]:
    """The syntax trees of the modules that have what a rule looks for: to parse all takes seconds for each rule."""
    for name in names:
        if re.search(hint, text(name), re.MULTILINE):
            yield name, ast.parse(text(name))
