"""Rules of the house that no linter knows: they hold for every file in the repository. Part of `make check`."""

from __future__ import annotations

import ast
import inspect
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import odradek.aio
import pytest

from tests.support.repository import FILES, MODULES, PAGES, ROOT, text, trees
from tools import house
from tools.distributions import distributions

THIS = "tests/unit/test_repository.py"  # it spells out what the others may not say
LINES_MAX = 600
MODULES_MAX = 20  # of a folder: a reader takes in as many names at once
ROOTS = ("lambdas", "glue_jobs", "infra")  # composition roots: they import odradek, never each other
BINARY = (".png", ".bin", ".gz", ".parquet", ".zip", ".whl", ".svg", ".jpg")

# Undone work, and the places of one machine.
UNDONE = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
MACHINE = re.compile(
    r"/(?:work|root)/|/Users/\w|/home/(?!runner\b)\w"
    # MirrorMaker 2 has a configuration dedicated.mode.enable.internal.rest, and internal topics of a cluster "primary";
    # Connect marks a record of Avro with connect.internal.type.
    r"|(?<=\w)(?<!mode\.enable)(?<!primary)(?<!checkpoints)\.internal\b(?!\.type\b)"
    r"|\b(?:10|192\.168)\.\d+\.\d+\.\d+\b(?!/)"  # a range, as in a network's rule, is nobody's place
)


def lines_that_match(pattern: re.Pattern[str], names: list[str]) -> Iterator[str]:
    for name in names:
        if name != THIS:
            for number, line in enumerate(text(name).splitlines(), 1):
                if pattern.search(line):
                    yield f"{name}:{number}: {line.strip()[:100]}"


def test_every_module_says_what_it_is_for() -> None:
    docstring = re.compile(r'(#.*\n|\s)*r?"""\s*[^\s"]')
    assert [name for name in MODULES if text(name).strip() and not docstring.match(text(name))] == []


def test_no_module_is_too_long_to_be_read() -> None:
    whole = {"sdk/src/odradek/columnar/kernels.py"}  # numba's cache looks at the file of a kernel alone
    assert [name for name in MODULES if text(name).count("\n") > LINES_MAX and name not in whole] == []


@pytest.mark.parametrize("tree", ["sdk/src/", "tests/simulation/", "tests/support/"])
def test_no_folder_of_the_tree_has_too_many_modules(tree: str) -> None:
    folders = Counter(str(Path(name).parent) for name in MODULES if name.startswith(tree))
    assert {folder: count for folder, count in folders.items() if count > MODULES_MAX} == {}


def test_every_package_of_the_client_logs() -> None:
    """An operator must find the cause of an incident in the client's log (docs/logging.md)."""
    call = re.compile(r"_?log(ger)?\.(log|debug|info|warning|error|exception)\(")
    root = "sdk/src/odradek/client"
    packages = {str(Path(name).parent) for name in MODULES if name.startswith(f"{root}/")}
    silent = {f"{root}/messages"}  # only shapes of requests and responses
    logging = {str(Path(name).parent) for name in MODULES if name.startswith(f"{root}/") and call.search(text(name))}
    assert packages - silent - logging == set()


def test_no_modules_of_the_wheel_import_each_other() -> None:
    assert house.import_cycle([(name, text(name)) for name in MODULES]) == []
    pair = [("sdk/src/odradek/a.py", "from odradek import b"), ("sdk/src/odradek/b.py", "import odradek.a")]
    assert set(house.import_cycle(pair)) == {"odradek.a", "odradek.b"}


def test_nothing_is_left_undone_in_the_code() -> None:
    assert list(lines_that_match(UNDONE, MODULES + PAGES)) == []


def test_no_file_names_a_place_of_one_machine() -> None:
    names = [name for name in FILES if not name.endswith((*BINARY, ".lock"))]
    assert list(lines_that_match(MACHINE, names)) == []


def test_the_lock_names_the_package_index_alone() -> None:
    hosts = set(re.findall(r"https?://([^/\"]+)", text("uv.lock")))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}


def requirements(texts: list[str]) -> set[tuple[str, frozenset[str], str]]:
    """Requirement strings as (name, extras, version range), which is what the lock keeps of them."""
    parsed = set()
    for requirement in texts:
        match = re.fullmatch(r"([\w.-]+)(?:\[([^]]*)\])?(.*)", requirement.replace(" ", ""))
        assert match, requirement
        extras = frozenset(filter(None, (match[2] or "").split(",")))
        parsed.add((match[1].lower().replace("_", "-"), extras, match[3]))
    return parsed


def locked(entries: list[dict[str, Any]]) -> set[tuple[str, frozenset[str], str]]:
    return {(entry["name"], frozenset(entry.get("extras", ())), entry.get("specifier", "")) for entry in entries}


def unordered(requirement_set: set[tuple[str, frozenset[str], str]]) -> set[tuple[str, frozenset[str], frozenset[str]]]:
    """Comparable requirements; the lock does not keep every version range of the workspace's own distributions."""
    return {
        (name, extras, frozenset(() if name in distributions() else version.split(",")))
        for name, extras, version in requirement_set
    }


def test_the_lock_is_that_of_the_requirements() -> None:
    """The same check as `uv lock --check`, without a network."""
    packages = {package["name"]: package for package in tomllib.loads(text("uv.lock"))["package"]}
    workspace = tomllib.loads(text("pyproject.toml"))
    members = [
        tomllib.loads(text(f"{member}/pyproject.toml")) for member in workspace["tool"]["uv"]["workspace"]["members"]
    ]
    assert sorted(member["project"]["name"] for member in members) == sorted(distributions())

    for project in (workspace, *members):
        name = project["project"]["name"]
        wanted = list(project["project"].get("dependencies", []))
        for extra in project["project"].get("optional-dependencies", {}).values():
            wanted += extra
        metadata = packages[name].get("metadata", {})
        assert unordered(requirements(wanted)) == unordered(locked(metadata.get("requires-dist", [])))
    for group, wanted in workspace["dependency-groups"].items():
        groups = packages["odradek-workspace"]["metadata"]["requires-dev"]
        assert unordered(requirements(wanted)) == unordered(locked(groups[group])), group


SHIPPED = {  # where what we build runs: Lambda (arm64), Glue and the gateway's image (x86_64), people's machines
    ("cp313", "aarch64"),
    ("cp313", "x86_64"),
    ("cp312", "x86_64"),
    ("cp311", "x86_64"),
}


@pytest.mark.parametrize("name", ["cramjam", "crc32c", "google-re2", "kio", "pybase64"])
def test_what_is_compiled_and_loaded_in_functions_has_wheels_for_each_machine(name: str) -> None:
    [package] = [package for package in tomllib.loads(text("uv.lock"))["package"] if package["name"] == name]
    files = [wheel["url"].rsplit("/", 1)[1] for wheel in package["wheels"]]
    missing = {
        (python, machine)
        for python, machine in SHIPPED
        if not any(python in file and machine in file and "manylinux" in file for file in files)
    }
    assert missing == set()


def links(name: str) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", text(name)):
        if not re.match(r"[a-z]+:|#", target):
            yield target.split("#")[0]


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{name} -> {target}"
        for name in PAGES
        for target in links(name)
        if not (ROOT / name).parent.joinpath(target).exists()
    ]
    assert broken == []


LINE_CHARS_MAX = 120  # of a page's prose; tables and code may be wider


def wide_lines(name: str) -> Iterator[str]:
    in_code = False
    for number, line in enumerate(text(name).splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif len(line) > LINE_CHARS_MAX and not in_code and not line.lstrip().startswith("|"):
            yield f"{name}:{number}: {len(line)} characters"


def test_no_line_of_a_page_is_too_wide() -> None:
    assert [wide_line for name in PAGES for wide_line in wide_lines(name)] == []


def test_the_changelog_knows_the_version_of_the_wheel() -> None:
    version = tomllib.loads(text("sdk/pyproject.toml"))["project"]["version"]
    newest = re.search(r"^## (\S+)", text("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == version


def test_every_bench_can_be_run_by_itself() -> None:
    benches = [name for name in MODULES if name.startswith("bench/") and not Path(name).name.startswith("_")]
    assert [name for name in benches if not re.search(r"^def main\(", text(name), re.MULTILINE)] == []


COUNTERS = re.compile(r"attempt|failure|retr|tries")  # how loops name what they count
PAUSES = re.compile(r"pause|delay|back_?off")  # and what they wait


DOUBLED = r"\*\*|\*=? 2\b|\b2 \*"  # without it, nothing grows by powers of two


def hand_written_backoffs(name: str, tree: ast.Module) -> Iterator[str]:
    """Two to the power of a number of attempts, sleeps for a power, and pauses that double."""
    for node in ast.walk(tree):
        is_backoff = False
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and isinstance(node.left, ast.Constant):
            is_backoff = node.left.value == 2 and bool(COUNTERS.search(ast.unparse(node.right)))
        elif isinstance(node, ast.Call) and re.search(r"\b(sleep|wait)$", ast.unparse(node.func)):
            is_backoff = "**" in " ".join(map(ast.unparse, node.args))
        elif isinstance(node, ast.Assign | ast.AugAssign):
            target = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            doubled = rf"\b{re.escape(target)} (\*|\*=) 2\b|\b2 \* {re.escape(target)}\b"
            is_backoff = bool(PAUSES.search(target) and re.search(doubled, ast.unparse(node)))
        if is_backoff:
            yield f"{name}:{node.lineno}: {ast.unparse(node)}"


def test_pauses_between_attempts_are_those_of_backoff() -> None:
    the_one = "sdk/src/odradek/backoff.py"
    shipped = [name for name in MODULES if name.startswith(("sdk/", *ROOTS)) and name != the_one]
    assert [backoff for module in trees(shipped, DOUBLED) for backoff in hand_written_backoffs(*module)] == []
    assert [backoff for module in trees([the_one], DOUBLED) for backoff in hand_written_backoffs(*module)], (
        "it is recognized"
    )


def kept_exceptions(name: str, tree: ast.Module) -> Iterator[str]:
    """Exceptions that a module makes once: each raise would add its frames, and all that they hold, to the same one."""
    for node in tree.body:
        made = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if isinstance(made, ast.Call) and re.search(r"(Error|Exception)$", ast.unparse(made.func)):
            yield f"{name}:{node.lineno}: {ast.unparse(made)}"


OF_THE_PROCESS = re.compile(r"setattr\([\w.]*\btime, ?\"")


def test_no_test_replaces_what_other_threads_use() -> None:
    """A `time.sleep` that returns at once makes every thread of the process spin that rests by it, Spark's among them:
    replace the name in the module under test (`setattr(module, "time", ...)`)."""
    assert [*lines_that_match(OF_THE_PROCESS, [name for name in MODULES if name.startswith("tests/")])] == []


def test_no_exception_is_made_once_and_raised_again() -> None:
    shipped = [name for name in MODULES if name.startswith(("sdk/", *ROOTS))]
    kept = [
        exception for module in trees(shipped, r"^\w.*=.*(Error|Exception)\(") for exception in kept_exceptions(*module)
    ]
    assert kept == [], "partial(KafkaError, ...)"


LISTENING = {  # who may listen: the base of all HTTP and WebSocket ports, the Kafka port, PySpark's workers
    "sdk/src/odradek/http/listening.py": {"socket.create_server"},
    "sdk/src/odradek/http/port.py": {"web.SockSite"},
    "sdk/src/odradek/http/asgi.py": {"loop.create_server", "hypercorn"},
    "sdk/src/odradek/gateway/server.py": {"loop.create_server"},
    "sdk/src/odradek/spark/workers/fork_server.py": {"self._listening.listen"},
}
LISTENS = re.compile(
    r"(^|\.)(create_server|create_unix_server|start_server|start_unix_server|\w*HTTPServer|TCPServer|UDPServer|"
    r"UnixStreamServer|\w*Site|run_app|listen|create_datagram_endpoint)$"
)
SERVERS = ("uvicorn", "hypercorn", "http.server", "socketserver", "wsgiref", "xmlrpc.server", "aiohttp.test_utils")


def listening_calls(tree: ast.Module) -> Iterator[str]:
    """Calls that listen, and imports of what does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and LISTENS.search(name := ast.unparse(node.func)) and name != "TCPServer":
            yield name
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module]
        yield from {server for name in names for server in SERVERS if f"{name}.".startswith(f"{server}.")}


def test_nothing_listens_but_the_base_of_all_ports() -> None:
    """odradek.http has guard, limits, logins and audit lines; docs/SECURITY.md shows its table."""
    shipped = [name for name in MODULES if name.startswith(("sdk/", *ROOTS))]
    listeners = {
        name: set(listening_calls(tree)) for name, tree in trees(shipped, r"listen|[sS]erver|uvicorn|Site|run_app")
    }
    assert {name: calls for name, calls in listeners.items() if calls} == LISTENING
    alone = "import uvicorn, http.server\nasyncio.start_server(f)\nHTTPServer(a)\nsocket.listen(1)"
    assert len(set(listening_calls(ast.parse(alone)))) == 5


PARAMETERS_MAX = 7  # of a constructor, without self


def long_constructors(name: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            count = len(node.args.args) - 1 + len(node.args.kwonlyargs)
            if count > PARAMETERS_MAX:
                yield f"{name}:{node.lineno}: {count} parameters"


def test_constructors_of_the_engine_take_ports_in_one_argument() -> None:
    engine = [name for name in MODULES if name.startswith("sdk/src/odradek/engine/")]
    long = [constructor for module in trees(engine, r"def __init__") for constructor in long_constructors(*module)]
    assert long == [], "engine/tools.py bundles the ports"


def slow_without_a_reason(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield the slow tests of a module whose docstring does not say why: "Slow: ..." """
    for node in tree.body:
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        marks = node.decorator_list if is_function else [node] if isinstance(node, ast.Assign) else []
        if any(re.search(r"\bmark\.slow\b", ast.unparse(mark)) for mark in marks):
            said = ast.get_docstring(node if is_function else tree) or ""
            if not re.search(r"\b[Ss]low: \w|\bslow because\b", said):
                yield f"{name}:{node.lineno}"


def test_slow_tests_say_why() -> None:
    names = [name for name in MODULES if name.startswith("tests/")]
    assert [
        unexplained for module in trees(names, r"\bmark\.slow\b") for unexplained in slow_without_a_reason(*module)
    ] == []


def targets() -> dict[str, str]:
    """The Makefile's targets and what its help says of them."""
    phony = re.search(r"^\.PHONY: (.*)$", text("Makefile"), re.MULTILINE)
    assert phony is not None
    documented = dict(re.findall(r"^([a-z0-9-]+):.*?## (.+)$", text("Makefile"), re.MULTILINE))
    return {name: documented.get(name, "") for name in phony[1].split()}


def test_every_make_target_is_in_the_help() -> None:
    internal = {"require-java"}  # asked by others, of no use to a person
    assert {name for name, said in targets().items() if not said} == internal


def test_pages_name_only_make_targets_that_exist() -> None:
    pattern = r"(?:`|^)make ([a-z0-9]+(?:-[a-z0-9]+)*)"
    named = {(page, name) for page in PAGES for name in re.findall(pattern, text(page), re.MULTILINE)}
    assert named
    assert {(page, name) for page, name in named if name not in targets()} == set()


def test_composition_roots_do_not_import_each_other() -> None:
    crossed = []
    for name, tree in trees([name for name in MODULES if name.startswith(ROOTS)], r"\bimport\b"):
        own_root = name.split("/")[0]
        for node in ast.walk(tree):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                modules = [f"{node.module or ''}.{alias.name}" for alias in node.names]
            # glue_jobs/ is imported as odradek.glue_jobs.
            roots = {module: module.removeprefix("odradek.").split(".")[0] for module in modules}
            crossed += [f"{name}: {module}" for module, root in roots.items() if root in {*ROOTS} - {own_root}]
    assert crossed == []


FINDINGS = [name for name in FILES if name.startswith("findings/") and name.endswith(".sh")]


@pytest.mark.parametrize("name", [".ci/run", "tools/bootstrap.sh", "tools/require_java.sh", *FINDINGS])
def test_scripts_can_be_run_and_stop_at_the_first_error(name: str) -> None:
    assert os.access(ROOT / name, os.X_OK)
    assert text(name).startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text(name)


def silent_names(module: Any) -> Iterator[str]:
    """Public names of a module, and public methods of its classes, whose help is empty."""
    for name in module.__all__:
        value = getattr(module, name)
        if not inspect.getdoc(value):
            yield f"{module.__name__}.{name}"
        for member, function in inspect.getmembers(value) if inspect.isclass(value) else ():
            is_public = not member.startswith("_") and (inspect.isfunction(function) or isinstance(function, property))
            if is_public and not inspect.getdoc(function):
                yield f"{module.__name__}.{name}.{member}"


def test_every_public_name_has_help() -> None:
    assert [*silent_names(odradek), *silent_names(odradek.aio)] == []


def test_the_wheels_carry_the_licence() -> None:
    licences = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "sdk").glob("*/LICENSE"))
    assert len(licences) == len(distributions()) - 1
    assert {text(name) for name in ["sdk/LICENSE", *licences]} == {text("LICENSE")}


ROUNDING_METHODS = {
    "quantize",
    "scaleb",
    "normalize",
    "to_integral_value",
    "to_integral_exact",
    "remainder_near",
    "fma",
}


def rounds(node: ast.AST) -> bool:
    """Return True for arithmetic of Decimals that takes place in the context of 28 digits."""

    def is_decimal(part: ast.AST) -> bool:
        return isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "Decimal"

    if isinstance(node, ast.Call):
        is_abs = isinstance(node.func, ast.Name) and node.func.id in ("abs", "round")
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr in ROUNDING_METHODS
        of_text = is_method and "unicodedata" in ast.unparse(node.func)
        return (is_method and not of_text) or (is_abs and any(map(is_decimal, node.args)))
    if isinstance(node, ast.ImportFrom):
        names = {alias.name for alias in node.names}
        return node.module == "decimal" and bool(names & {"Context", "getcontext", "setcontext", "localcontext"})
    if isinstance(node, ast.BinOp):
        return is_decimal(node.left) or is_decimal(node.right)
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and is_decimal(node.operand)


def test_decimals_are_computed_by_the_exact_module_alone() -> None:
    """Python's default context has 28 digits: arithmetic of Decimals belongs to odradek.model.decimals."""
    chosen = [name for name in MODULES if name.startswith("sdk/src/") and not name.endswith("model/decimals.py")]
    computed = [
        f"{name}:{getattr(node, 'lineno', 0)}"
        for name, tree in trees(chosen, r"\bDecimal\b")
        for node in ast.walk(tree)
        if rounds(node)
    ]
    assert computed == []


@pytest.mark.parametrize("code", ["Decimal(a) + 1", "-Decimal(a)", "abs(Decimal(a))", "value.scaleb(2)",
                                  "from decimal import localcontext"])  # fmt: skip
def test_arithmetic_of_decimals_is_recognised(code: str) -> None:
    assert any(rounds(node) for node in ast.walk(ast.parse(code)))
