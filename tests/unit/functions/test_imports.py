"""Modules that a cold function does not import. Each of these would be paid by every user at every cold start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import pytest
from odradek.dispatcher.handlers import HANDLERS
from odradek.engine.engine import Engine
from odradek.functions.environment import BUCKET, CATALOG_TABLE, GROUPS_TABLE, LOG_TABLE, REGION
from odradek.protocol.api import FunctionName

from lambdas.serving import PARTS as PARTS_LOADED
from lambdas.serving import SPOKEN_BY_SDK

HEAVY = {"aiohttp", "typer", "rich", "boto3", "numpy", "numba", "pyarrow", "pandas", "pyspark", "sqlite3", "msgpack"}
FUNCTION = (
    "odradek.functions.handler, odradek.functions.maintenance, odradek.functions.maintainer, odradek.adapters.aws, "
    "odradek.system, odradek.engine.engine, odradek.dispatcher"
)


def test_a_function_imports_nothing_heavy() -> None:
    code = f"import sys, json, {FUNCTION}; print(json.dumps(sorted(sys.modules)))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = json.loads(child.stdout)
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()
    rooms = {name.split(".")[1] for name in modules if name.startswith("odradek.")}
    assert rooms & {"client", "cli", "local", "spark", "columnar", "testing"} == set()


PARTS = ("share", "classic", "compaction", "maintenance", "transactions", "groups", "offsets", "audit")
NOT_IMPORTED = {  # packages of odradek that a function does not need for its first request
    FunctionName.PRODUCE: {*(f"engine.{part}" for part in PARTS), "engine.read", "dispatcher.transactions"},
    FunctionName.FETCH: {*(f"engine.{part}" for part in PARTS), "dispatcher.transactions"},
}


# What the direct clients do without (odradek.adapters.aws.direct), and the checksum's package (format/crc.py).
LEFT_OUT = {
    *("botocore.session", "botocore.client", "botocore.loaders", "botocore.auth", "botocore.httpsession", "urllib3"),
    *("dateutil", "jmespath", "crc32c"),
}


@pytest.mark.parametrize("name", list(FunctionName))
def test_a_cold_function_does_without_botocores_clients(name: FunctionName) -> None:
    """Half of the CPU of a cold start, with the descriptions of services that they read."""
    assert LEFT_OUT & set(_imported_by(name)) == set()


@pytest.mark.parametrize("name", list(NOT_IMPORTED))
def test_a_cold_function_imports_what_its_requests_need_and_nothing_else(name: FunctionName) -> None:
    """By name and not by time: 100 modules less are a third of a cold start's CPU that is ours."""
    modules = _imported_by(name)
    ours = {name.removeprefix("odradek.") for name in modules if name.startswith("odradek.")}
    assert {module for module in ours for package in NOT_IMPORTED[name] if module.startswith(f"{package}.")} == set()
    families = {module.split(".")[1] for module in ours if module.startswith("dispatcher.") and module.count(".") == 2}
    needed = {HANDLERS[api_key].module.split(".")[0] for api_key in SPOKEN_BY_SDK[name]}
    assert families <= {"cluster", *needed}


def _imported_by(name: FunctionName) -> list[str]:
    """The modules of a process that has imported the handler, as Lambda does."""
    environment = {LOG_TABLE: "l", GROUPS_TABLE: "g", CATALOG_TABLE: "c", BUCKET: "b", REGION: "us-east-1"}
    keys = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "PATH": os.environ.get("PATH", "")}
    code = f"import sys, json, lambdas.{name.value}.handler; print(json.dumps(sorted(sys.modules)))"
    child = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
        env={**environment, **keys},
    )
    modules: list[str] = json.loads(child.stdout)
    return modules


def test_the_handler_of_each_api_exists() -> None:
    for api_key, handler in HANDLERS.items():
        assert callable(handler.handle), api_key
        assert callable(handler.refuse), api_key


def test_a_function_loads_what_its_first_request_needs() -> None:
    """Otherwise the first client waits for it, on a part of a processor."""
    for name, parts in PARTS_LOADED.items():
        assert all(isinstance(getattr(Engine, part), cached_property) for part in parts), name
