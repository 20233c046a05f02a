"""A service in one process, and the command line and the SDK in others: they need its folder and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import odradek
import pytest
from odradek.errors import KafkaError

BIN = Path(sys.executable).parent
SDK = "import odradek; print(odradek.Admin(**odradek.local.client_config('data')).list_topics())"


def in_shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script of bash in a folder, with no credentials in its environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ODRADEK_"))}
    environment["PATH"] = f"{BIN}:{environment['PATH']}"
    return subprocess.run(
        [shutil.which("bash") or "bash", "-euc", script],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def test_other_processes_find_the_service_by_its_folder(folder: Path) -> None:
    with odradek.local(folder / "data") as service:  # type: ignore[operator]
        created = in_shell("odradek topics create orders --data-dir data", folder)
        evaluated = in_shell('eval "$(odradek env --data-dir data)"; cd /; odradek topics list', folder)
        from_sdk = in_shell(f'python -c "{SDK}"', folder)

        assert created.returncode == 0, created.stderr
        assert "orders" in evaluated.stdout, evaluated.stderr
        assert "orders" in from_sdk.stdout, from_sdk.stderr
        assert service.bootstrap_servers in in_shell("odradek env --data-dir data", folder).stdout

    refused = in_shell(f'python -c "{SDK}"', folder)
    assert "odradek local --data-dir data" in refused.stderr


def test_a_client_without_the_keys_is_told_how_to_get_them(folder: Path) -> None:
    with odradek.local(folder / "data") as service:  # type: ignore[operator]
        keys = {"aws_access_key_id": "ODRADEKLOCALX", "aws_secret_access_key": "wrong"}
        with (
            pytest.raises(KafkaError, match=r"odradek\.local\.client_config"),
            odradek.Admin(bootstrap_servers=service.bootstrap_servers, **keys) as admin,
        ):
            admin.list_topics()
