"""`make release` notices what should not be published."""

from __future__ import annotations

from email.parser import Parser
from pathlib import Path

import pytest

from tools.release import Built, notes_of, problems_of

METADATA = """\
Metadata-Version: 2.4
Name: odradek
Version: 1.2.3
Summary: Apache Kafka with no servers.
Author: The Odradek developers
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.11
Description-Content-Type: text/markdown

# Odradek
"""
FILES = ("odradek/__init__.py", "odradek/py.typed", "odradek/sql/grammar.lark")
WHEEL = (
    *FILES,
    "odradek-1.2.3.dist-info/METADATA",
    "odradek-1.2.3.dist-info/entry_points.txt",
)
SDIST = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    *(f"src/{name}" for name in FILES),
)


def wheel(metadata: str = METADATA, *more: str, name: str = "odradek-1.2.3-py3-none-any.whl") -> Built:
    return Built(Path(name), (*WHEEL, *more), Parser().parsestr(metadata))


def sdist(*names: str) -> Built:
    return Built(Path("odradek-1.2.3.tar.gz"), names, Parser().parsestr(METADATA))


def test_what_is_ready_has_no_problem() -> None:
    assert problems_of(wheel(), "1.2.3", FILES) == []
    assert problems_of(sdist(*SDIST), "1.2.3", FILES) == []


@pytest.mark.parametrize(
    ("built", "said"),
    [
        (wheel(METADATA.replace("Version: 1.2.3", "Version: 1.2.2")), "the version is 1.2.2"),
        (wheel(METADATA.replace("Author: The Odradek developers\n", "")), "no Author"),
        (wheel(METADATA.replace("License-File: LICENSE\n", "")), "no License-File"),
        (wheel(METADATA.replace("Kafka", "Kafka" * 200)), "more than 512 characters"),
        (wheel(METADATA.replace("# Odradek\n", "")), "no description"),
        (wheel(METADATA.replace("text/markdown", "text/plain")), "not declared as Markdown"),
        (wheel(METADATA + "See [Clients](docs/CLIENTS.md)."), "the link to docs/CLIENTS.md leads nowhere"),
        (wheel(METADATA, "tests/test_x.py"), "tests would be installed beside odradek"),
        (wheel(METADATA, "glue_jobs/word_count/job.py"), "glue_jobs would be installed beside odradek"),
        (wheel(METADATA, "odradek/__pycache__/x.pyc"), "does not belong in it"),
        (wheel(METADATA, "odradek/local/credentials.json"), "does not belong in it"),
        (wheel(name="odradek-1.2.3-cp311-linux_x86_64.whl"), "not a pure wheel"),
        (sdist(*SDIST[1:]), "pyproject.toml is missing"),
        (sdist(*SDIST[:-1]), "src/odradek/sql/grammar.lark is missing"),
    ],
)
def test_a_problem_is_named(built: Built, said: str) -> None:
    assert said in "\n".join(problems_of(built, "1.2.3", FILES))


@pytest.mark.parametrize(
    ("changelog", "expected"),
    [
        ("## 1.2.3 - 2026-12-01\n", []),
        ("## 1.2.3 - unreleased\n", ["CHANGELOG.md gives 1.2.3 no date yet"]),
        ("## 1.2.2 - 2026-12-01\n", ["the newest entry of CHANGELOG.md is not 1.2.3"]),
    ],
)
def test_the_changelog_is_asked_for_the_version(changelog: str, expected: list[str]) -> None:
    assert notes_of(changelog, "1.2.3") == expected
