"""Write the file of odradek.functions.compiled_dataclasses for a package. Runs in the target's Python, with its path.

    python3.13 dataclass_code.py <folder of the layer's packages> <folder of lambdas/> <name of a handler's module> ...

Imports the handlers as Lambda does, and records what `dataclasses` compiles. The extension modules of the package are
of the target's processor, which this machine may not have: each is played by a module of mocks, which importing does
not notice.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.machinery
import marshal
import os
import sys
import types
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

# Of no account: importing a handler reads them and calls nothing.
ENVIRONMENT = {
    **{f"ODRADEK_{name}": "none" for name in ("LOG_TABLE", "GROUPS_TABLE", "CATALOG_TABLE", "ROWS_TABLE", "BUCKET")},
    **{f"ODRADEK_{name}_URL": "https://sqs.us-east-1.amazonaws.com/1/none" for name in ("QUEUE", "WAKE_QUEUE")},
    "AWS_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
}


class Played(types.ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


class PlayedExtensions(MetaPathFinder, Loader):
    """Finds the extension modules of some folders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        last = fullname.rpartition(".")[2]
        is_compiled = any(any(Path(folder).glob(f"{last}.*.so")) for folder in path or ())
        return importlib.machinery.ModuleSpec(fullname, self) if is_compiled else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Played(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def main(layer: str, functions: str, modules: Sequence[str]) -> None:
    """Import the modules and write the file into the package of odradek."""
    os.environ.update(ENVIRONMENT)
    sys.path[:0] = [functions, layer]
    sys.meta_path.insert(0, PlayedExtensions())
    from odradek.functions import compiled_dataclasses

    file = Path(layer) / "odradek" / "functions" / compiled_dataclasses.FILE_NAME
    file.unlink(missing_ok=True)  # or the functions would use it
    codes: dict[bytes, bytes] = {}

    def record(text: str, *namespaces: Any) -> None:
        code = compile(text, "<string>", "exec")
        codes[compiled_dataclasses.digest(text)] = marshal.dumps(code)
        exec(code, *namespaces)  # noqa: S102

    dataclasses.exec = record  # type: ignore[attr-defined]
    for module in modules:
        importlib.import_module(module)
    ordered = {key: codes[key] for key in sorted(codes)}
    file.write_bytes(marshal.dumps(ordered))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
