"""The functions load beforehand just the schemas that the SDK speaks."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import odradek.client
import pytest
from odradek.protocol.api import OWNED, ApiKey

SERVING = Path(__file__).parents[3] / "lambdas" / "serving.py"
CLIENT = Path(odradek.client.__file__).parent


def preloaded() -> dict[str, dict[str, int]]:
    """SPOKEN_BY_SDK, read without importing a function (which needs its environment)."""
    for statement in ast.parse(SERVING.read_text()).body:
        if isinstance(statement, ast.AnnAssign) and getattr(statement.target, "id", "") == "SPOKEN_BY_SDK":
            value = statement.value
            assert isinstance(value, ast.Dict)
            return {ast.unparse(k).split(".")[1]: _inner(v) for k, v in zip(value.keys, value.values, strict=True) if k}
    raise AssertionError("SPOKEN_BY_SDK is gone")


def _inner(node: ast.expr) -> dict[str, int]:
    assert isinstance(node, ast.Dict)
    return {ast.unparse(k).split(".")[1]: ast.literal_eval(v) for k, v in zip(node.keys, node.values, strict=True) if k}


def spoken() -> dict[str, set[int]]:
    """An API may be spoken in two versions: an older one where a request needs no more."""
    source = "\n".join(path.read_text() for path in CLIENT.rglob("*.py"))
    versions_spoken = re.findall(r"kio\.schema\.([a-z_]+)\.v([0-9]+)\.request", source)
    versions: dict[str, set[int]] = {}
    for name, version in versions_spoken:
        versions.setdefault(name.upper(), set()).add(int(version))
    return versions


@pytest.mark.parametrize("function", ["PRODUCE", "FETCH", "COORDINATOR"])
def test_versions_are_those_of_the_sdk(function: str) -> None:
    sdk = spoken()
    assert sdk, "the SDK imports its schemas"
    for api, version in preloaded()[function].items():
        assert version in sdk[api], api
        assert ApiKey[api] in {key for name, keys in OWNED.items() if name.name == function for key in keys}


def test_the_hot_apis_are_preloaded() -> None:
    assert {api for apis in preloaded().values() for api in apis} >= {"PRODUCE", "FETCH", "METADATA", "OFFSET_COMMIT"}
