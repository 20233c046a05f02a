"""Build what is uploaded: for the functions their code and a layer, for Glue a zip of wheels. `make package`.

    dist/odradek*-<version>-py3-none-any.whl        the distributions: for images, and for people
    dist/odradek.gluewheels.zip    wheels/...       those of the jobs, and what they need beyond Glue's
    dist/layer.zip       python/...    odradek, odradek-server, kio, crc32c, cramjam, botocore, their dependencies,
                                       bytecode of it all, and of the methods of dataclasses
    dist/functions.zip   lambdas/...   the handlers
    dist/tables.zip      python/...    with --tables: a layer for the maintainer alone, with which it writes columnar
                                       history and keeps Iceberg tables (docs/decisions/0049)

By default for Lambda's Python 3.13 on arm64; `--host` builds for this machine, as the tests do. Versions are
those of uv.lock, and every download has the hash that it names. A Glue job installs nothing but its zip of
wheels, without a package index: otherwise whoever publishes a new version of anything would run code with the rights
to the store. What the functions never import stays out (docs/decisions/0004): aiohttp, which a client
needs, and botocore's descriptions of the services that are not called.

Same inputs, same bytes: names sorted, times fixed, hash-less bytecode that does not depend on file times. A function
cannot write bytecode next to a read-only layer, so without it every cold start compiles every module again. It is made
by an interpreter of the target's version where this machine has one; where not, the build says what that costs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from odradek.functions.environment import HANDLERS

from tools.distributions import distributions

ROOT = Path(__file__).resolve().parent.parent
LAMBDA_PLATFORM = "aarch64-manylinux_2_28"
LAMBDA_PYTHON = "3.13"
UNZIPPED_BYTES_MAX = 250 * 1024 * 1024  # Lambda: function and layers together
NOT_IN_FUNCTIONS = ("aiohttp",)  # a client has it
IN_FUNCTIONS = ("odradek", "odradek_server")
IN_JOBS = ("odradek", "odradek_connect", "odradek_server", "odradek_spark", "odradek_sql")
NOT_IN_JOBS = ("rich", "typer")  # of the command line
SERVICES_CALLED = frozenset({"dynamodb", "lambda", "s3", "sns", "sqs", "sts"})
GLUE_PYTHON = "3.13"  # of Glue 6.0
GLUE_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_26_x86_64", "manylinux_2_17_x86_64",
                  "manylinux2014_x86_64")  # fmt: skip
GLUE_EXTRAS = ("aws", "tables", "avro", "protobuf")  # `spark` is part of `tables`
# The layer `tables`: what these extras have beyond the other layer, and that maintenance imports.
TABLES_EXTRAS = ("table", "iceberg", "avro", "protobuf", "aws")
# numpy is for numba, the SQL catalog the embedded service's; PyIceberg's transforms in Rust, its command line and its
# other file system are never imported.
NOT_IN_TABLES = ("numpy", "sqlalchemy", "pyiceberg-core", "click", "rich", "typer", "fsspec", *NOT_IN_FUNCTIONS)
TABLES_SERVICE = "glue"  # whose description the other layer does not have; Lambda merges the folders of layers
# Parts of packages that maintenance does not import, such as a third of pyarrow, by globs.
TRIMMED = {
    "pyarrow": (
        *("*_flight*", "*flight.*", "_substrait*", "*_gcsfs*", "*_azurefs*", "*_hdfs*"),
        *("*_orc*", "*parquet_encryption*", "*_cpp_tests*", "*_feather*", "tests", "include", "includes", "src"),
        *("*.pxd", "*.pyx", "*.pxi", "*.pyi", "conftest.py", "benchmark.py"),
    ),
    "zstandard": ("_cffi*", "backend_cffi.py"),  # a second copy, for PyPy
    "boto3": ("data", "examples"),
    "": ("hive_metastore", "fb303"),  # of PyIceberg, for another catalog
}
# In the extras, or what those need, but part of Glue already: installing them over Glue's own would break it.
PROVIDED_BY_GLUE = ("pyspark", "pandas", "numpy", "pyarrow", "boto3", "botocore")
GLUE_WHEELS = "odradek.gluewheels.zip"  # Glue goes by the end of the name
_IN_LAMBDA = ("layer.zip", "functions.zip", "tables.zip")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can hold


class PackagingFailed(Exception):
    """The message says what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """For which machine."""

    python_version: str
    platform: str | None  # None: this machine

    @classmethod
    def host(cls) -> Target:
        return cls(f"{sys.version_info.major}.{sys.version_info.minor}", None)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file to upload."""

    path: Path
    zipped_bytes: int
    unzipped_bytes: int
    sha256: str


def build(out: Path, target: Target, *, tables: bool = False) -> list[Artifact]:
    """Build all of them into `out`; the layer `tables` only if it is asked for. Raises PackagingFailed."""
    out.mkdir(parents=True, exist_ok=True)
    wheels = build_wheels(out)
    modules = build_glue_wheels(out, wheels)
    with tempfile.TemporaryDirectory(prefix="odradek-package-") as scratch_name:
        scratch = Path(scratch_name)
        layer, functions = scratch / "layer", scratch / "functions"
        install_layer(layer / "python", wheels, target, scratch)
        copy_modules("lambdas", functions)
        compile_bytecode(layer / "python", "/opt/python", target)
        compile_bytecode(functions, "/var/task", target)
        compile_dataclasses(layer / "python", functions, target)
        in_lambda = [write_zip(out / "layer.zip", layer), write_zip(out / "functions.zip", functions)]
        (out / "tables.zip").unlink(missing_ok=True)  # of an earlier lock
        if tables:
            in_lambda.append(build_tables(out, target, scratch))
    deployed = deployed_bytes(in_lambda)
    if deployed > UNZIPPED_BYTES_MAX:
        raise PackagingFailed(
            f"function and layer have {deployed} bytes unzipped, Lambda takes {UNZIPPED_BYTES_MAX}: leave something out"
        )
    return [*map(describe, wheels.values()), modules, *in_lambda]


def glue_requirements() -> str:
    """Return the pinned requirements of jobs beyond our wheels and Glue's own libraries. Raises PackagingFailed."""
    return exported(extras=GLUE_EXTRAS, pruned=(*PROVIDED_BY_GLUE, *NOT_IN_JOBS))


def build_glue_wheels(out: Path, ours: Mapping[str, Path]) -> Artifact:
    """Download the wheels, checked against uv.lock, and zip them as Glue takes them. Raises PackagingFailed.

    The layout, a folder `wheels` with a requirements.txt in it, is Glue's (developer guide, "Zip of wheels").
    """
    requirements = glue_requirements()
    with tempfile.TemporaryDirectory(prefix="odradek-glue-") as scratch_name:
        scratch = Path(scratch_name)
        wheels = scratch / "zip" / "wheels"
        wheels.mkdir(parents=True)
        (scratch / "requirements.txt").write_text(requirements)
        platforms = [argument for name in GLUE_PLATFORMS for argument in ("--platform", name)]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--require-hashes", "--only-binary", ":all:", "--python-version", GLUE_PYTHON, *platforms]
        command += ["--requirement", str(scratch / "requirements.txt"), "--dest", str(wheels)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PackagingFailed(f"the wheels of Glue jobs cannot be downloaded:\n{done.stderr.strip()}")
        for name in IN_JOBS:
            shutil.copy(ours[name], wheels)
        pins = sorted("==".join(path.name.split("-")[:2]) for path in wheels.glob("*.whl"))
        (wheels / "requirements.txt").write_text("\n".join(pins) + "\n")
        return write_zip(out / GLUE_WHEELS, scratch / "zip")


def copy_modules(package: str, target: Path) -> None:
    """The sources of a package of this repository, under its own name."""
    shutil.copytree(ROOT / package, target / package, ignore=shutil.ignore_patterns("__pycache__"))


def deployed_bytes(artifacts: Iterable[Artifact]) -> int:
    """Return the bytes of a function's files once they are unpacked."""
    return sum(artifact.unzipped_bytes for artifact in artifacts if artifact.path.name in _IN_LAMBDA)


def build_wheels(out: Path) -> dict[str, Path]:
    """Build the wheels of sdk/: their paths by the names that begin the files. Raises PackagingFailed."""
    for old in out.glob("odradek*.whl"):
        old.unlink()
    run_uv("build", "--quiet", "--wheel", "--all-packages", "--out-dir", str(out))
    (out / ".gitignore").unlink(missing_ok=True)
    return {
        distribution.wheel: next(out.glob(f"{distribution.wheel}-*.whl")) for distribution in distributions().values()
    }


def install_layer(python: Path, wheels: Mapping[str, Path], target: Target, scratch: Path) -> None:
    """Install our wheels and the locked dependencies of the functions, for the target, into a directory."""
    requirements = scratch / "requirements.txt"
    requirements.write_text(exported("odradek-server", pruned=NOT_IN_FUNCTIONS))
    install(python, target, "-r", str(requirements))
    install(python, target, *(str(wheels[name]) for name in IN_FUNCTIONS))
    strip_services(python)


def install(python: Path, target: Target, *requirements: str) -> None:
    """Install for the target into a directory, without what a function does not need."""
    platform = ["--python-platform", target.platform] if target.platform else []
    version = ["--python", sys.executable] if target == Target.host() else ["--python-version", target.python_version]
    command = ["pip", "install", "--quiet", "--no-deps", "--target", str(python), "--only-binary", ":all:"]
    run_uv(*command, *version, *platform, *requirements)
    shutil.rmtree(python / "bin", ignore_errors=True)
    for name in (".lock", "MANIFEST.in", "README.md"):
        (python / name).unlink(missing_ok=True)
    for cache in list(python.rglob("__pycache__")):
        shutil.rmtree(cache)


def build_tables(out: Path, target: Target, scratch: Path) -> Artifact:
    """Build the maintainer's layer for columnar history. Raises PackagingFailed."""
    python = scratch / "tables" / "python"
    requirements = scratch / "tables.txt"
    in_layer = {name for name, _ in _pins(exported("odradek-server", pruned=NOT_IN_FUNCTIONS))} - {"botocore"}
    wanted = exported(extras=TABLES_EXTRAS, pruned=NOT_IN_TABLES)
    requirements.write_text("".join(f"{pin}\n" for name, pin in _pins(wanted) if name not in in_layer))
    install(python, target, "-r", str(requirements))
    _keep_one_service(python)
    for package, patterns in TRIMMED.items():
        for path in [path for pattern in patterns for path in (python / package).glob(pattern)]:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for soname in (python / "pyarrow").glob("*.so.*.*.*"):  # copies of what is there under the name that is loaded
        soname.unlink()
    for copy in (python / "pyarrow").glob("*.so.*"):
        (copy.parent / f"{copy.name.partition('.so.')[0]}.so").unlink(missing_ok=True)
    compile_bytecode(python, "/opt/python", target)
    return write_zip(out / "tables.zip", scratch / "tables")


def _keep_one_service(python: Path) -> None:
    """Leave of botocore, which the other layer has, the description of the one service more."""
    kept = python / "service"
    (python / "botocore" / "data" / TABLES_SERVICE).rename(kept)
    for path in python.glob("botocore*"):
        shutil.rmtree(path)
    (python / "botocore" / "data").mkdir(parents=True)
    kept.rename(python / "botocore" / "data" / TABLES_SERVICE)


def exported(package: str = "odradek", *, extras: Iterable[str] = (), pruned: Iterable[str] = ()) -> str:
    """Return the requirements of a distribution with these extras, with their hashes, as uv.lock pins them."""
    return run_uv(
        *("export", "--quiet", "--frozen", "--no-default-groups", "--package", package),
        *("--no-emit-workspace", "--no-header", "--no-annotate"),
        *(argument for extra in extras for argument in ("--extra", extra)),
        *(argument for name in pruned for argument in ("--prune", name)),
    )


def _pins(requirements: str) -> Iterator[tuple[str, str]]:
    """Yield the names of requirements, and each with its hashes."""
    for pin in re.findall(r"^\S.*(?:\n +.*)*", requirements, re.MULTILINE):
        yield re.split(r"[=; ]", pin)[0], pin


def strip_services(python: Path) -> None:
    """Remove the descriptions of services that are never called: nearly all of botocore."""
    for service in (python / "botocore" / "data").iterdir():
        if service.is_dir() and service.name not in SERVICES_CALLED:
            shutil.rmtree(service)


def compile_bytecode(tree: Path, deployed_at: str, target: Target) -> None:
    """Write bytecode beside every module, if an interpreter of the target's version is here."""
    interpreter = find_interpreter(target.python_version)
    if interpreter is None:
        print(
            f"package: no Python {target.python_version} on this machine, so {tree.name} has no bytecode: it runs, but "
            "each cold start compiles it again. Install one, or name it with ODRADEK_BYTECODE_PYTHON.",
            file=sys.stderr,
        )
        return
    subprocess.run(
        [
            *(str(interpreter), "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"),
            *("-s", str(tree), "-p", deployed_at, str(tree)),
        ],
        check=True,
        env={"PYTHONHASHSEED": "0", "PATH": os.environ.get("PATH", "")},
        stdout=subprocess.DEVNULL,
    )


def compile_dataclasses(layer: Path, functions: Path, target: Target) -> None:
    """Write the code of the functions' dataclasses (odradek.functions.compiled_dataclasses), as with bytecode.

    Raises PackagingFailed if a function cannot be imported.
    """
    interpreter = find_interpreter(target.python_version)
    if interpreter is None:
        return
    modules = [handler.rpartition(".")[0] for handler in HANDLERS.values()]
    done = subprocess.run(
        [interpreter, "-I", "-S", "-B", ROOT / "tools" / "dataclass_code.py", layer, functions, *modules],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PackagingFailed(f"the packaged functions cannot be imported:\n{done.stderr.strip()}")


def find_interpreter(version: str) -> Path | None:
    """An interpreter of this minor version: ours, a named one, one on PATH, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    named = os.environ.get("ODRADEK_BYTECODE_PYTHON")
    candidates = [
        *([named] if named else []),
        sys.executable,
        shutil.which(f"python{version}"),
        *sorted(map(str, pyenv.glob(f"{version}*/bin/python{version}"))),
    ]
    return next((Path(path) for path in candidates if path and _version_of(path) == version), None)


def _version_of(interpreter: str) -> str | None:
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        result = subprocess.run([interpreter, "-I", "-c", question], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return result.stdout.strip()


def write_zip(path: Path, tree: Path) -> Artifact:
    """Zip a directory so that equal trees give equal bytes."""
    path.unlink(missing_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in _files(tree):
            entry = zipfile.ZipInfo(file.relative_to(tree).as_posix(), _EPOCH)
            entry.create_system = 3  # Unix, so that the mode below counts
            entry.external_attr = (0o100755 if file.suffix == ".so" else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, _content(file))
    return describe(path)


def _files(tree: Path) -> Iterator[Path]:
    return iter(sorted(file for file in tree.rglob("*") if file.is_file()))


def _content(file: Path) -> bytes:
    """A file's bytes; lines that tell where and when it was installed are left out."""
    content = file.read_bytes()
    if file.name == "RECORD" and file.parent.suffix == ".dist-info":
        lines = content.splitlines(keepends=True)
        return b"".join(sorted(line for line in lines if not re.search(rb"__pycache__|direct_url|uv_cache|bin/", line)))
    if file.name in {"direct_url.json", "uv_cache.json"}:
        return b"{}"
    return content


def describe(path: Path) -> Artifact:
    """Sizes and hash of an archive."""
    with zipfile.ZipFile(path) as archive:
        unzipped = sum(entry.file_size for entry in archive.infolist())
    return Artifact(path, path.stat().st_size, unzipped, hashlib.sha256(path.read_bytes()).hexdigest())


def run_uv(*arguments: str) -> str:
    """Run uv. Raises PackagingFailed with what it said."""
    uv = Path(sys.executable).parent / "uv"
    command = [str(uv) if uv.exists() else shutil.which("uv") or "uv", *arguments]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise PackagingFailed("uv is not here: run `make setup`") from None
    except subprocess.CalledProcessError as error:
        raise PackagingFailed(f"`uv {' '.join(arguments[:3])} ...` failed:\n{error.stderr.strip()}") from None


def _context_has_tables() -> bool:
    """Return True if every deployment is to have the layer `tables`."""
    context = json.loads((ROOT / "cdk.json").read_text()).get("context", {})
    return str(context.get("tables", "")).lower() == "true"


def table(artifacts: Iterable[Artifact]) -> str:
    """Format the artifacts as a table."""
    lines = [f"{'artifact':<32} {'zipped MB':>10} {'unzipped MB':>12}  sha256"]
    lines += [
        f"{a.path.name:<32} {a.zipped_bytes / 1e6:>10.2f} {a.unzipped_bytes / 1e6:>12.2f}  {a.sha256[:16]}"
        for a in artifacts
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Build the wheels, Glue's zip of wheels, the layer and the functions' code."
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where to (dist)")
    parser.add_argument("--platform", default=LAMBDA_PLATFORM, help=f"uv's name of the platform ({LAMBDA_PLATFORM})")
    parser.add_argument("--python-version", default=LAMBDA_PYTHON, help=f"minor version ({LAMBDA_PYTHON})")
    parser.add_argument("--tables", action="store_true", help="the maintainer's layer for columnar history, too")
    parser.add_argument("--host", action="store_true", help="for this machine and this Python instead")
    arguments = parser.parse_args()
    target = Target.host() if arguments.host else Target(arguments.python_version, arguments.platform)
    try:
        artifacts = build(arguments.out.resolve(), target, tables=arguments.tables or _context_has_tables())
    except PackagingFailed as failed:
        print(f"package: {failed}", file=sys.stderr)
        return 1
    print(table(artifacts))
    print(f"function and layer unzipped: {deployed_bytes(artifacts) / 1e6:.1f} of {UNZIPPED_BYTES_MAX / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
