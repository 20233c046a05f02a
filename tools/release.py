"""`make release`: build wheels and source distributions into dist/release, and check what would be published.

It publishes nothing: RELEASE.md has the steps. Building needs the package index, for the build backend.

Exit code 0: ready, 1: something has to be fixed first, 2: it could not be built. A note is not a problem: it names what
is left to do before publishing, such as the version's date in CHANGELOG.md.
"""

from __future__ import annotations

import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path

from tools.distributions import distributions
from tools.package import ROOT, PackagingFailed, run_uv

OUT = ROOT / "dist" / "release"
SUMMARY_CHARS_MAX = 512  # the package index's own bound (core metadata specification)
WHEEL_BYTES_MAX = 5 * 1024 * 1024  # it is source code: more is something that does not belong in it

_REQUIRED = ("Name", "Version", "Summary", "Author", "License-Expression", "License-File", "Requires-Python")
_PACKAGE = "odradek"  # all that the wheel installs: any other name could be that of a user's own package
_IN_SDIST = ("pyproject.toml", "README.md", "LICENSE")
_FOREIGN = re.compile(r"(^|/)(__pycache__|\.env|\.venv|\.git|tests|credentials\.json)(/|$)|\.(pyc|pem|key)$")


@dataclass(frozen=True, slots=True)
class Built:
    """A built file: what is in it, and its metadata."""

    path: Path
    names: tuple[str, ...]
    metadata: Message


def build(out: Path) -> list[Built]:
    """Build all: each wheel from its source distribution, as an installer would. Raises PackagingFailed."""
    shutil.rmtree(out, ignore_errors=True)
    run_uv("build", "--quiet", "--all-packages", "--out-dir", str(out))
    (out / ".gitignore").unlink(missing_ok=True)
    return [*map(read_sdist, sorted(out.glob("*.tar.gz"))), *map(read_wheel, sorted(out.glob("*.whl")))]


def read_wheel(path: Path) -> Built:
    with zipfile.ZipFile(path) as wheel:
        names = tuple(wheel.namelist())
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        return Built(path, names, Parser().parsestr(wheel.read(metadata).decode()))


def read_sdist(path: Path) -> Built:
    with tarfile.open(path) as sdist:
        root, _, _ = sdist.getnames()[0].partition("/")
        names = tuple(member.name.removeprefix(f"{root}/") for member in sdist.getmembers() if member.isfile())
        metadata_file = sdist.extractfile(f"{root}/PKG-INFO")
        assert metadata_file is not None, "a source distribution has its metadata"
        return Built(path, names, Parser().parsestr(metadata_file.read().decode()))


def problems_of(built: Built, version: str, files: Iterable[str]) -> list[str]:
    """List what has to be fixed before this file is published. Pure.

    Args:
        files: what the distribution installs, such as odradek/__init__.py.
    """
    metadata, names = built.metadata, built.names
    is_wheel = built.path.suffix == ".whl"
    needed = files if is_wheel else (*_IN_SDIST, *(f"src/{file}" for file in files))
    problems = [f"the metadata has no {field}" for field in _REQUIRED if not metadata.get(field)]
    if metadata.get("Version") != version:
        problems.append(f"the version is {metadata.get('Version')}, pyproject.toml says {version}")
    if len(metadata.get("Summary") or "") > SUMMARY_CHARS_MAX:
        problems.append(f"the summary has more than {SUMMARY_CHARS_MAX} characters")
    problems += _description_problems(metadata)
    problems += [f"{name} is missing" for name in needed if name not in names]
    problems += [f"{name} does not belong in it" for name in names if _FOREIGN.search(name)]
    if is_wheel:
        if not built.path.name.endswith("-py3-none-any.whl"):
            problems.append(f"{built.path.name} is not a pure wheel")
        tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
        problems += [f"{top} would be installed beside odradek" for top in sorted(tops - {_PACKAGE})]
        is_client = metadata.get("Name") == _PACKAGE
        if is_client and not any(name.endswith(".dist-info/entry_points.txt") for name in names):
            problems.append("the command odradek is missing")
    return problems


def _description_problems(metadata: Message) -> list[str]:
    description = metadata.get_payload()
    if not isinstance(description, str) or not description.strip():
        return ["the package page has no description"]
    problems = []
    if not (metadata.get("Description-Content-Type") or "").startswith("text/markdown"):
        problems.append("the description is not declared as Markdown")
    relative = (
        link for link in re.findall(r"\]\(([^)\s]+)\)", description) if not re.match(r"https?:|#|mailto:", link)
    )
    return problems + [f"the link to {link} leads nowhere on a package page" for link in relative]


def notes_of(changelog: str, version: str) -> list[str]:
    """Return the steps left before publishing, beyond the files. Pure."""
    newest = re.search(r"^## (\S+)(?: - (.*))?$", changelog, re.MULTILINE)
    if newest is None or newest[1] != version:
        return [f"the newest entry of CHANGELOG.md is not {version}"]
    return [] if re.fullmatch(r"\d{4}-\d\d-\d\d", newest[2] or "") else [f"CHANGELOG.md gives {version} no date yet"]


def report(built: Iterable[Built], problems: Mapping[Path, list[str]], notes: Iterable[str]) -> str:
    """Format a report on the files to publish."""
    lines = ["This would be published (nothing has been):"]
    for one_built in built:
        size = one_built.path.stat().st_size
        lines.append(f"  {one_built.path.relative_to(ROOT)}  {size / 1024:,.0f} KiB, {len(one_built.names)} files")
        lines += [f"    problem: {problem}" for problem in problems[one_built.path]]
    lines += [f"  note: {note}" for note in notes]
    return "\n".join(lines)


def main() -> int:
    by_name = distributions()
    version = by_name["odradek"].version
    try:
        built = build(OUT)
    except PackagingFailed as error:
        print(f"release: {error}", file=sys.stderr)
        return 2
    files = {name: [file.as_posix() for file in by_name[name].files()] for name in by_name}
    problems = {
        one_built.path: problems_of(one_built, version, files[one_built.metadata["Name"]]) for one_built in built
    }
    for one_built in built:
        if one_built.path.stat().st_size > WHEEL_BYTES_MAX:
            problems[one_built.path].append(f"it is larger than {WHEEL_BYTES_MAX // 1024 // 1024} MiB")
    print(report(built, problems, notes_of((ROOT / "CHANGELOG.md").read_text(), version)))
    return 1 if any(problems.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
