"""The files to upload: the artifacts of `make package`, or stand-ins for those that are not built yet.

    dist/layer.zip       the client's and the server's wheel and their dependencies, for Lambda's Python 3.13 on arm64
    dist/functions.zip   lambdas/
    dist/tables.zip      the maintainer's layer for tables, of `make package ARGS=--tables`
    dist/odradek*.whl    for the images
    dist/odradek.gluewheels.zip   for Glue, as is: the wheels of the jobs, and their dependencies

The templates can be written on a fresh clone, without a network: a missing artifact is replaced by a stand-in, and the
stacks that use it carry an error. `cdk deploy` and `cdk synth` refuse a stack with an error and print it; `make synth`
writes the templates anyway. So nothing half-built can be deployed by accident.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aws_cdk import Annotations
from constructs import IConstruct

from tools.distributions import distributions

ROOT = Path(__file__).resolve().parent.parent
GLUE_WHEELS = "odradek.gluewheels.zip"
STAND_IN = "STAND-IN"  # the file in a stand-in directory
DISTRIBUTIONS = tuple(distribution.wheel for distribution in distributions().values())
_STAND_IN_WHEEL = "{}-0-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class Artifacts:
    """Paths of the files to upload; `missing` has those that `make package` must build, relative to the repository."""

    layer: Path  # zip, or a stand-in directory
    functions: Path  # zip, or a stand-in directory
    wheels: Mapping[str, Path]  # by distribution; file names are wheels', stand-ins or not: pip goes by the name
    glue_wheels: Path  # zip, stand-in or not: Glue goes by the end of its name
    tables: Path | None = None  # zip, or a stand-in directory; None: not asked for
    missing: tuple[str, ...] = ()

    @classmethod
    def find(cls, root: Path = ROOT, *, tables: bool = False) -> Artifacts:
        """Return the artifacts in dist/, with stand-ins in a temporary directory for missing ones.

        Args:
            tables: the layer for columnar history as well.
        """
        dist = root / "dist"
        table_layer = dist / "tables.zip"
        layer, functions = dist / "layer.zip", dist / "functions.zip"
        wheels = {
            name: wheel for name in DISTRIBUTIONS for wheel in sorted(dist.glob(f"{name}-*.whl"), key=_written_at)
        }
        glue_wheels = dist / GLUE_WHEELS
        zips = (layer, functions, glue_wheels, *([table_layer] if tables else ()))
        missing = [str(path.relative_to(root)) for path in zips if not path.is_file()]
        if len(wheels) < len(DISTRIBUTIONS):
            missing.append("dist/odradek*.whl")
        if not missing:
            return cls(layer, functions, wheels, glue_wheels, table_layer if tables else None)
        stand_in = _stand_in_directory()
        layer_of_tables = table_layer if table_layer.is_file() else stand_in
        return cls(
            layer=layer if layer.is_file() else stand_in,
            functions=functions if functions.is_file() else stand_in,
            wheels={name: wheels.get(name, stand_in / _STAND_IN_WHEEL.format(name)) for name in DISTRIBUTIONS},
            glue_wheels=glue_wheels if glue_wheels.is_file() else stand_in / GLUE_WHEELS,
            tables=layer_of_tables if tables else None,
            missing=tuple(missing),
        )

    def require(self, scope: IConstruct) -> None:
        """Add an error to the scope if any artifact is a stand-in."""
        if self.missing:
            Annotations.of(scope).add_error(
                f"not built: {', '.join(self.missing)}. Run `{self.command}`, then deploy again."
            )

    @property
    def command(self) -> str:
        """The command that builds them."""
        return "make package" if self.tables is None else "make package ARGS=--tables"


def _written_at(path: Path) -> float:
    return path.stat().st_mtime


def _stand_in_directory() -> Path:
    """Return a directory with fixed content, so that its hash, and with it the template, is the same in every run."""
    directory = Path(tempfile.gettempdir()) / "odradek-stand-in"
    directory.mkdir(exist_ok=True)
    (directory / STAND_IN).write_text("Run `make package` before deploying.\n")
    for name in DISTRIBUTIONS:
        (directory / _STAND_IN_WHEEL.format(name)).write_bytes(b"")
    (directory / GLUE_WHEELS).write_bytes(b"")
    return directory
