"""The distributions of sdk/ divide its sources, and import only what they require (docs/decisions/0088)."""

from __future__ import annotations

import ast
import os
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from odradek.cli.commands import COMMANDS
from odradek.extras import extra_of

from tools.distributions import ROOT, SOURCES, Distribution, distributions

CLIENT_LINES_MAX = 30_000
# Parts of a distribution that only work with another one, which their extra brings.
BEYOND = {
    "odradek/operations/query/": "odradek-spark",
    "odradek/cli/": "odradek-console",  # a command runs in the tree of commands
}


def required(distribution: Distribution) -> set[str]:
    """The distributions that are there wherever this one is, itself too."""
    known_distributions = distributions()
    names = {distribution.name}
    for name in distribution.requires:
        names |= required(known_distributions[name])
    return names


@cache
def homes() -> dict[str, str]:
    """The distribution of every module, by dotted name."""
    return {
        ".".join(module.with_suffix("").parts).removesuffix(".__init__"): distribution.name
        for distribution in distributions().values()
        for module in distribution.modules()
    }


def imported(source: str, package: str) -> Iterator[tuple[str, int]]:
    """The modules that a file imports when it is imported itself, with their lines."""
    pending: list[ast.stmt] = list(ast.parse(source).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((name.name, node.lineno) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{package}: relative import"
            yield node.module, node.lineno
            yield from ((f"{node.module}.{name.name}", node.lineno) for name in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]


def test_every_module_is_in_one_distribution() -> None:
    counts = Counter(module for distribution in distributions().values() for module in distribution.modules())
    tree = {
        Path(folder, name).relative_to(SOURCES)
        for folder, _, names in os.walk(SOURCES / "odradek", followlinks=True)
        for name in names
        if name.endswith(".py")
    }
    assert len(tree) > 800
    assert set(counts) == tree
    assert max(counts.values()) == 1


def test_a_distribution_imports_what_it_requires() -> None:
    wrong = []
    for distribution in distributions().values():
        allowed = required(distribution)
        for module in distribution.modules():
            beyond = {name for prefix, name in BEYOND.items() if module.as_posix().startswith(prefix)}
            for name, line in imported((SOURCES / module).read_text(encoding="utf-8"), module.as_posix()):
                home = homes().get(name)
                if home is not None and home not in allowed | beyond:
                    wrong.append(f"{module}:{line} imports {name}, of {home}")
    assert wrong == [], "\n".join(wrong)


def test_the_client_stays_small() -> None:
    client = distributions()["odradek"]
    lines = sum(len((SOURCES / module).read_text(encoding="utf-8").splitlines()) for module in client.modules())
    assert 10_000 < lines <= CLIENT_LINES_MAX
    assert client.requires == frozenset()


def test_all_have_one_version_and_require_exactly_it() -> None:
    assert len({distribution.version for distribution in distributions().values()}) == 1
    for distribution in distributions().values():
        project = tomllib.loads((distribution.folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        lists = [project["dependencies"], *project.get("optional-dependencies", {}).values()]
        ours = [
            requirement for requirements in lists for requirement in requirements if requirement.startswith("odradek-")
        ]
        assert all(requirement.endswith(f"=={distribution.version}") for requirement in ours), ours
        assert (distribution.folder / "README.md").is_file()
        assert (distribution.folder / "LICENSE").is_file()


def test_a_module_of_another_distribution_names_an_extra_that_brings_it() -> None:
    extras = tomllib.loads((ROOT / "sdk" / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    brought: dict[str, set[str]] = {}

    def all_of(extra: str) -> set[str]:
        if extra not in brought:
            brought[extra] = set()
            for requirement in extras[extra]:
                name = requirement.split("==")[0]
                if name.startswith("odradek["):
                    brought[extra] |= {more for part in name[8:-1].split(",") for more in all_of(part)}
                elif name in distributions():
                    brought[extra] |= required(distributions()[name])
        return brought[extra]

    without = {
        module: home
        for module, home in homes().items()
        if home != "odradek" and (extra := extra_of(module)) is not None and home not in all_of(extra)
    }
    assert without == {}
    assert [module for module, home in homes().items() if home != "odradek" and extra_of(module) is None] == []


def test_every_command_has_a_distribution() -> None:
    assert {f"odradek.cli.{home.module}" for home in COMMANDS.values()} <= set(homes())
