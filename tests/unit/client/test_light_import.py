"""`import odradek` costs a function nothing that it does not use."""

from __future__ import annotations

import json
import subprocess
import sys

import odradek
import pytest


def test_the_package_imports_no_client_library() -> None:
    code = "import sys, json, odradek, odradek.protocol.api; print(json.dumps(sorted(sys.modules)))"
    modules = json.loads(
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    )
    heavy = {"aiohttp", "botocore", "boto3", "pyarrow", "numpy", "kio", "asyncio"}
    assert not heavy & {module.split(".")[0] for module in modules}


def test_a_client_in_process_needs_no_http() -> None:
    code = "import sys, odradek; odradek.Producer, odradek.Consumer, odradek.Admin; print('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "False\n"


def test_every_public_name_is_there() -> None:
    for name in odradek.__all__:
        assert getattr(odradek, name) is not None
    assert set(odradek.__all__) <= set(dir(odradek))


@pytest.mark.parametrize(
    "names", [["Producer"], ["Consumer"], ["Admin"], ["ShareConsumer"], ["Table", "aio"], ["dispatcher"]]
)
def test_users_who_test_with_hypothesis_do_not_import_it_with_a_client(names: list[str]) -> None:
    """kio imports it where it is installed, which takes half a second (protocol/kio_alone.py)."""
    code = (
        "import importlib, json, sys, odradek\n"
        f"for name in {names!r}: getattr(odradek, name, None) or importlib.import_module(f'odradek.{{name}}')\n"
        "told = 'hypothesis' in sys.modules, 'kio' in sys.modules\n"
        "import hypothesis.strategies\n"  # still importable afterwards
        "print(json.dumps(told))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert json.loads(ended.stdout) == [False, True]


def test_a_program_that_has_hypothesis_gets_kios_strategies() -> None:
    code = "import hypothesis, odradek; odradek.Producer; from kio.static import _phantom; print(_phantom.hypothesis)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert "hypothesis" in ended.stdout
