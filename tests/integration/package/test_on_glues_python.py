"""Glue's package in an environment like Glue's: Python 3.13 with Spark and its libraries, our wheel and nothing else.

    --additional-python-modules   odradek.gluewheels.zip, unpacked and given to pip, which asks no package index
    the script                    job.py by itself; the rest of the job is in the wheel
    awsglue                       a stand-in with Glue's parser of arguments: it is not in the package index

The job reads and writes a log in AWS (moto), as it does on Glue. Nothing of the repository is on the path.
Slow: an environment is made from the package index, and a Spark is started in it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest
from odradek.adapters.aws import AwsStore
from odradek.engine.engine import Engine
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng

from tests.support.engine import batch, produce, read_all
from tests.support.stores.aws import CREDENTIALS, REGION, StoreNames, create_tables, moto_server, open_store
from tools.package import (
    PROVIDED_BY_GLUE,
    ROOT,
    build_glue_wheels,
    build_wheels,
    find_interpreter,
    run_uv,
)

pytestmark = pytest.mark.slow

LINES = [b"to be or not to be", b"that is the question", b"whether it is nobler"]
AWSGLUE_UTILS = '''
"""Of Glue's own module what a job calls: every name must be given, what else is given does not matter."""
import argparse

def getResolvedOptions(argv, options):
    parser = argparse.ArgumentParser()
    for name in options:
        parser.add_argument("--" + name, required=True)
    return vars(parser.parse_known_args(argv[1:])[0])
'''


@dataclass(frozen=True)
class Glue:
    """An environment as a job finds it."""

    folder: Path

    def run(self, command: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command of the environment, started where nothing of ours is."""
        java = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "LANG") if name in os.environ}
        python = self.folder / "bin" / "python"
        return subprocess.run(
            [str(self.folder / "bin" / command), *arguments],
            cwd=self.folder,
            env={
                **java,
                "HOME": str(self.folder),
                "PYSPARK_PYTHON": str(python),
                "PYSPARK_DRIVER_PYTHON": str(python),
                "SPARK_LOCAL_IP": "127.0.0.1",
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


@pytest.fixture(scope="module")
def glue(tmp_path_factory: pytest.TempPathFactory) -> Glue:
    interpreter = find_interpreter("3.13")
    if interpreter is None:
        pytest.skip("there is no Python 3.13 on this machine, which Glue 6.0 runs")
    folder = tmp_path_factory.mktemp("glue") / "env"
    wheels = build_wheels(folder.parent / "dist")
    run_uv("venv", "--quiet", "--python", str(interpreter), str(folder))
    install = ("pip", "install", "--quiet", "--python", str(folder / "bin" / "python"))
    run_uv(*install, *(f"{name}=={version(name)}" for name in PROVIDED_BY_GLUE))
    zipped = build_glue_wheels(folder.parent / "dist", wheels)
    with zipfile.ZipFile(zipped.path) as archive:
        archive.extractall(folder.parent)
    unzipped = folder.parent / "wheels"
    run_uv(*install, "--no-index", "--find-links", str(unzipped), "-r", str(unzipped / "requirements.txt"))
    (site,) = folder.glob("lib/python3.13/site-packages")
    (site / "awsglue").mkdir()
    (site / "awsglue" / "__init__.py").touch()
    (site / "awsglue" / "utils.py").write_text(AWSGLUE_UTILS)
    return Glue(folder)


def test_every_job_is_imported_by_what_is_installed(glue: Glue) -> None:
    names = sorted(path.parent.name for path in (ROOT / "glue_jobs").glob("*/job.py"))
    assert len(names) > 10
    imports = "\n".join(f"import odradek.glue_jobs.{name}.job" for name in names)
    done = glue.run("python", "-c", imports)
    assert done.returncode == 0, done.stderr
    for name in names:
        described = glue.run("python", "-m", f"odradek.glue_jobs.{name}.job", "--help")
        assert described.returncode == 0, described.stderr


@pytest.fixture
def log() -> Iterator[tuple[str, StoreNames]]:
    with pytest.MonkeyPatch.context() as patch, moto_server() as endpoint:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        yield endpoint, create_tables(endpoint)


def test_a_job_runs_as_glue_starts_it(glue: Glue, log: tuple[str, StoreNames], tmp_path: Path) -> None:
    endpoint, names = log
    asyncio.run(fill(endpoint))
    done = glue.run(
        *("spark-submit", "--master", "local[2]"),
        str(script_elsewhere("word_count", tmp_path)),
        *("--job-language", "python", "--enable-metrics", "true", "--JOB_NAME", "odradek-dev-word_count"),
        *("--log_table", names.log_table, "--catalog_table", names.catalog_table, "--bucket", names.bucket),
        *("--region", REGION, "--endpoint_url", endpoint, "--checkpoint_location", str(tmp_path / "checkpoint")),
        *("--input_topic", "lines", "--output_topic", "counts", "--once", "true", "--metrics", "emf"),
        **CREDENTIALS,
    )
    assert done.returncode == 0, done.stdout[-3_000:]  # spark-submit puts what Python says there
    assert asyncio.run(counted(endpoint)) == Counter(word for line in LINES for word in line.decode().split())
    metrics = [json.loads(line) for line in done.stdout.splitlines() if '"_aws"' in line]
    assert metrics, "CloudWatch reads them from the job's log"


def script_elsewhere(name: str, folder: Path) -> Path:
    """As Glue has it: by itself, its transform in the wheel."""
    script = folder / "script.py"
    script.write_bytes((ROOT / "glue_jobs" / name / "job.py").read_bytes())
    return script


def engine_over(store: AwsStore) -> Engine:
    return Engine(tables=store, objects=store.objects, clock=SystemClock(), rng=SystemRng(), settings=Settings())


async def fill(endpoint: str) -> None:
    async with open_store(endpoint) as store:
        engine = engine_over(store)
        await engine.topics.create("lines", 2, {})
        await engine.topics.create("counts", 2, {"cleanup.policy": "compact"})
        for number, line in enumerate(LINES):
            assert not (await produce(engine, "lines", number % 2, batch([line]))).error


async def counted(endpoint: str) -> Counter[str]:
    """The newest count of each word."""
    newest: Counter[str] = Counter()
    async with open_store(endpoint) as store:
        engine = engine_over(store)
        for partition in range(2):
            for record in await read_all(engine, "counts", partition):
                value = json.loads(record.value or b"")
                newest[value["word"]] = value["count"]
    return newest
