"""The collector of garbage rests while a function is made ready, and works from its first request on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from odradek.functions.environment import BUCKET, CATALOG_TABLE, GROUPS_TABLE, LOG_TABLE, REGION, WAKE_QUEUE_URL

ENVIRONMENT = {
    **dict.fromkeys((LOG_TABLE, GROUPS_TABLE, CATALOG_TABLE, BUCKET), "name"),
    REGION: "eu-central-1",
    WAKE_QUEUE_URL: "https://sqs.eu-central-1.amazonaws.com/000000000000/wakes",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
}
# Any event will do: what cannot be answered is refused.
CODE = """
import gc, json
from contextlib import suppress
from importlib import import_module
from tests.support.services.function_calls import FakeContext
gc.enable()
found = [gc.isenabled()]
import lambdas
handler = import_module("lambdas.{name}.handler").handler
found += [gc.isenabled(), gc.get_freeze_count() > 50_000]
with suppress(Exception):
    handler({{}}, FakeContext())
found += [gc.isenabled(), gc.get_freeze_count() > 50_000]
print(json.dumps(found))
"""


def test_it_works_from_the_start_where_connectors_run() -> None:
    """Their function has a handler of its own kind (lambdas/connect)."""
    code = "import gc; from odradek.connect.runtime.worker import collect_rarely as rarely; gc.disable(); rarely(); "
    child = subprocess.run(
        [sys.executable, "-c", code + "print(gc.isenabled())"], capture_output=True, text=True, check=True
    )
    assert child.stdout.strip() == "True"


@pytest.mark.parametrize("in_lambda", [True, False], ids=["in Lambda", "elsewhere"])
@pytest.mark.parametrize("name", ["produce", "maintainer", "registry"])
def test_it_rests_until_the_first_request(name: str, in_lambda: bool) -> None:
    environment = {**os.environ, **ENVIRONMENT, **({"AWS_LAMBDA_FUNCTION_NAME": name} if in_lambda else {})}
    child = subprocess.run(
        [sys.executable, "-c", CODE.format(name=name)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
        env=environment,
    )
    flags = json.loads(child.stdout.splitlines()[-1])
    assert flags == ([True, False, False, True, True] if in_lambda else [True, True, False, True, False])
