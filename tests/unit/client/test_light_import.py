"""`import odradek` costs a function nothing that it does not use."""

from __future__ import annotations

import json
import subprocess
import sys

import odradek


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
