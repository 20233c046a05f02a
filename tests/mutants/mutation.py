"""A mutant, and two ways to have a process run it: an import hook, and an exchange of what has been imported.

Imports nothing of what is mutated.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

PACKAGE = Path(__file__).parents[2] / "sdk" / "src" / "odradek"


@dataclass(frozen=True)
class Mutant:
    """One small change of one file.

    Attributes:
        name: says what is changed; unique.
        path: of the file, below the package.
        old: what is changed; it is in the file exactly once.
        equivalent: why no user can tell the mutant from the original, though a test that counts or looks inside may;
            empty: somebody can.
        unseen: why no simulated history shows it, though a test does.
        near: profiles that live on what is changed, where those of its file do not.
        made_by: the rule that made it (rules.py); empty: it was written by hand.
        killed_by: the test that fails with it (a pytest node id) where the simulation need not notice.
    """

    name: str
    path: str
    old: str
    new: str
    equivalent: str = ""
    killed_by: str = ""
    unseen: str = ""
    near: tuple[str, ...] = ()
    made_by: str = ""

    @property
    def module(self) -> str:
        return ".".join(("odradek", *Path(self.path).with_suffix("").parts))

    def source(self) -> str:
        """The mutated file. Raises ValueError where the old text is not in it exactly once."""
        text = (PACKAGE / self.path).read_text()
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.name}: the old text is in {self.path} {count} times, not once")
        return text.replace(self.old, self.new)

    def digest(self) -> str:
        """Of the outermost function that is mutated, or of the file: a result holds for this content."""
        source = self.source()
        first = (PACKAGE / self.path).read_text().partition(self.old)[0].count("\n") + 1
        last = first + self.new.rstrip("\n").count("\n")
        tree = ast.parse(source)
        changed = next((each for each in _outermost(tree) if each.lineno <= first and last <= _end(each)), tree)
        return hashlib.sha256(ast.dump(changed).encode()).hexdigest()[:16]


def _outermost(tree: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for each in tree.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each
        elif isinstance(each, ast.ClassDef):
            yield from _outermost(each)


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


class _Loader(SourceFileLoader):
    """Loads one module from changed source, past every cache."""

    source = ""

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.source.encode(), self.path)
        return code


class _Finder(MetaPathFinder):
    def __init__(self, module: str, source: str) -> None:
        self._module = module
        self._source = source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        loader = _Loader(fullname, spec.origin)
        loader.source = self._source
        spec.loader = loader
        return spec


def install(mutant: Mutant) -> None:
    """Have this process import the mutant. Raises ValueError; RuntimeError where the module was imported before."""
    if mutant.module in sys.modules:
        raise RuntimeError(f"{mutant.module} has been imported already")
    sys.meta_path.insert(0, _Finder(mutant.module, mutant.source()))


def exchange(mutant: Mutant) -> bool:
    """Give the functions of the module the mutant's code; False where it changes more than functions.

    Every reference to a function stays, so that whoever imported it runs the mutant: a process that has imported
    everything need not import it again for each mutant.
    """
    module = import_module(mutant.module)
    assert module.__file__ is not None
    path = module.__file__
    was = _functions(compile(Path(path).read_text(), path, "exec"))
    becomes = _functions(compile(mutant.source(), path, "exec"))
    if was.keys() != becomes.keys():
        return False
    if _bodies(was) != _bodies(becomes):
        return False
    changed = {name for name, code in was.items() if code != becomes[name] and _is_function(code)}
    places = {(code.co_qualname, code.co_firstlineno): name for name, code in was.items() if _is_function(code)}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename == path:
            name = places.get((each.__code__.co_qualname, each.__code__.co_firstlineno))
            if name is not None:
                each.__code__ = becomes[name]
                changed.discard(name)
    return not changed


def _functions(code: CodeType, prefix: tuple[str, ...] = ()) -> dict[tuple[str, ...], CodeType]:
    """The code of a module, its classes and functions, by name and place; without what functions define inside."""
    found = {prefix: code}
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    for number, each in enumerate(inner):
        name = (*prefix, f"{each.co_name} {number}")
        found |= {name: each} if _is_function(each) else _functions(each, name)
    return found


def _bodies(codes: dict[tuple[str, ...], CodeType]) -> list[tuple[object, ...]]:
    """What the module and its classes do beside defining functions."""
    return [
        (code.co_code, code.co_names, [each for each in code.co_consts if not isinstance(each, CodeType)])
        for code in codes.values()
        if not _is_function(code)
    ]


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & CO_NEWLOCALS)
