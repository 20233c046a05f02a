"""Measure the house: `make house` prints what tests/unit/test_language.py and test_house.py put bounds on.

    names      the share of filler words among the names of variables, arguments and attributes, by area
    size       modules and lines, by area and by distribution; the longest module
    imports    cycles of imports
    logs       packages of the wheel without a logger
    record     modules, switches between modules, functions and calls of one produced and of one fetched record

An area is a package of the wheel, a folder of tests, or a folder of the repository.
"""

from __future__ import annotations

import ast
import graphlib
import re
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.distributions import SOURCES, Distribution, distributions

ROOT = Path(__file__).resolve().parents[1]
WHEEL = "sdk/src/odradek"
TREES = (WHEEL, "glue_jobs", "lambdas", "infra", "tools", "bench", "tests")

# Words that say nothing of the value: a name is the noun of the thing (topic, batch, row, response, tp).
FILLERS = frozenset(
    ("each", "found", "place", "given", "known", "answer", "rest", "few", "told", "there", "here", "what", "who",
     "kind", "way", "seen", "gone", "asked")
)  # fmt: skip
_FETCH_MAX_WAIT_MS = 50
LOGS = re.compile(r"\b_?log(ger)?\.(log|debug|info|warning|error|exception|critical)\(")


def area_of(path: str) -> str:
    """Return the area of a file, by its path from the root of the repository."""
    parts = path.removeprefix(f"{WHEEL}/").split("/")
    if path.startswith(f"{WHEEL}/"):
        return parts[0] if len(parts) > 1 else "odradek"
    return "/".join(parts[:2]) if parts[0] == "tests" and len(parts) > 2 else parts[0]


def sources(trees: Iterable[str] = TREES) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every module. `glue_jobs` is read once, not through its link in the wheel."""
    for tree in trees:
        for path in sorted((ROOT / tree).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(f"{WHEEL}/glue_jobs/"):
                yield name, path.read_text(encoding="utf-8")


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names of variables, arguments and attributes, once for each binding."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name
            case _:
                pass


@dataclass
class Area:
    """The counts of one area."""

    modules: int = 0
    lines: int = 0
    longest: tuple[int, str] = (0, "")
    names: int = 0
    fillers: Counter[str] = field(default_factory=Counter)

    @property
    def filler_percent(self) -> float:
        return 100 * self.fillers.total() / max(1, self.names)


def measure_areas(modules: Iterable[tuple[str, str]]) -> dict[str, Area]:
    """Return the counts of each area.

    Args:
        modules: paths and texts (`sources`).
    """
    areas: dict[str, Area] = defaultdict(Area)
    for path, text in modules:
        area = areas[area_of(path)]
        lines = text.count("\n")
        area.modules += 1
        area.lines += lines
        area.longest = max(area.longest, (lines, path))
        for name in bound_names(ast.parse(text)):
            area.names += 1
            if name in FILLERS:
                area.fillers[name] += 1
    return dict(areas)


def _imports(module: str, tree: ast.Module, known_modules: frozenset[str]) -> set[str]:
    """Return the modules of the wheel that one loads as it is loaded."""
    loaded = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            loaded |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & known_modules
            loaded |= submodules or {node.module}
    return loaded & known_modules - {module}


def import_cycle(modules: Iterable[tuple[str, str]]) -> list[str]:
    """Return the modules of a cycle of imports, or an empty list. Imports inside of functions are none."""
    named = {
        path.removeprefix("sdk/src/").removesuffix(".py").removesuffix("/__init__").replace("/", "."): text
        for path, text in modules
        if path.startswith(f"{WHEEL}/")
    }
    known_modules = frozenset(named)
    graph = {module: _imports(module, ast.parse(text), known_modules) for module, text in named.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def unlogged_packages(modules: Iterable[tuple[str, str]]) -> set[str]:
    """Return the packages of the wheel that have functions and no call of a logger."""
    packages: dict[str, bool] = defaultdict(bool)
    for path, text in modules:
        if path.startswith(f"{WHEEL}/") and re.search(r"^\s*(async )?def ", text, re.MULTILINE):
            packages[str(Path(path).parent.relative_to(WHEEL))] |= bool(LOGS.search(text))
    return {package for package, logs in packages.items() if not logs}


@dataclass
class Trace:
    """The code that runs for one record, in the client and an embedded service of one process."""

    modules: list[str] = field(default_factory=list)  # in the order in which they are entered
    calls: Counter[str] = field(default_factory=Counter)  # of functions

    @property
    def switches(self) -> int:
        return len(self.modules) - 1

    def __str__(self) -> str:
        return (
            f"{len(set(self.modules))} modules, {self.switches} switches between them, "
            f"{len(self.calls)} functions, {self.calls.total()} calls"
        )


class _Profile:
    """Notes the wheel's functions that are called in any thread, as long as one records."""

    def __init__(self) -> None:
        self._base = f"{ROOT / WHEEL}/"
        self._trace: Trace | None = None

    def start(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def record(self, work: Callable[[], Any]) -> Trace:
        self._trace = trace = Trace()
        work()
        self._trace = None
        return trace

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        trace, code = self._trace, frame.f_code
        if trace is not None and event == "call" and code.co_filename.startswith(self._base):
            module = code.co_filename[len(self._base) :]
            trace.calls[f"{module}: {code.co_qualname}"] += 1
            if not trace.modules or trace.modules[-1] != module:
                trace.modules.append(module)


def follow_record() -> tuple[Trace, Trace]:
    """Trace one produced and one fetched record, after others have warmed the caches."""
    import odradek

    def poll() -> None:
        while not consumer.poll(timeout_ms=500):
            pass

    def fetch() -> None:
        consumer.resume([tp])
        poll()

    profile = _Profile()
    profile.start()  # before any thread of the client starts
    try:
        with tempfile.TemporaryDirectory() as folder, odradek.local(folder) as service:
            config = service.client_config
            with odradek.Admin(**config) as admin:
                admin.create_topics([odradek.NewTopic("records", num_partitions=1)])
            with odradek.Producer(**config) as producer:
                producer.send("records", value=b"warms the caches").result()
                produced = profile.record(lambda: producer.send("records", value=b"followed").result())
            with odradek.Consumer(**config, fetch_max_wait_ms=_FETCH_MAX_WAIT_MS) as consumer:
                tp = odradek.TopicPartition("records", 0)
                consumer.assign([tp])
                consumer.seek(tp, 0)
                poll()
                consumer.pause([tp])
                time.sleep(4 * _FETCH_MAX_WAIT_MS / 1_000)  # until no fetch is under way that the trace would have too
                consumer.seek(tp, 1)
                fetched = profile.record(fetch)
    finally:
        profile.stop()
    return produced, fetched


def _areas_table(areas: dict[str, Area]) -> Table:
    table = Table("area", "modules", "lines", "longest", "names", "fillers", "%")
    for name, area in sorted(areas.items(), key=lambda entry: -entry[1].fillers.total()):
        row = (area.modules, area.lines, area.longest[0], area.names, area.fillers.total())
        table.add_row(name, *(f"{number:,}" for number in row), f"{area.filler_percent:.1f}")
    return table


def _size_of(distribution: Distribution) -> str:
    lines = [(SOURCES / module).read_text(encoding="utf-8").count("\n") for module in distribution.modules()]
    return f"{distribution.name}: {len(lines):,} modules, {sum(lines):,} lines"


def main() -> None:
    """Print the measures."""
    console, modules = Console(), list(sources())
    areas = measure_areas(modules)
    console.print(_areas_table(areas))
    names, fillers = sum(area.names for area in areas.values()), sum(area.fillers.total() for area in areas.values())
    console.print(f"fillers: {fillers:,} of {names:,} names, {100 * fillers / names:.2f}%")
    for distribution in distributions().values():
        console.print(_size_of(distribution))
    console.print(f"import cycle: {' > '.join(import_cycle(modules)) or 'none'}")
    silent = sorted(unlogged_packages(modules))
    console.print(f"packages without a logger: {len(silent)}: {', '.join(silent)}", soft_wrap=True)
    for title, trace in zip(("produce", "fetch"), follow_record(), strict=True):
        console.print(f"{title}: {trace}")


if __name__ == "__main__":
    main()
