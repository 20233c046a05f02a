"""Environments of a user: our wheels, and what a page says to install beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tools.package import build_wheels, run_uv

Environment = Callable[..., Path]
Install = Callable[[str], Path]


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return build_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="session")
def environment(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Make an environment with packages as `pip install` takes them; odradek is of our wheels. Its bin folder."""
    client = wheels["odradek"]
    made: dict[tuple[str, ...], Path] = {}

    def make(*packages: str) -> Path:
        if packages not in made:
            folder = tmp_path_factory.mktemp("environment")
            run_uv("venv", "--quiet", str(folder))
            wanted = [f"{name} @ {client.as_uri()}" if name.startswith("odradek") else name for name in packages]
            python = str(folder / "bin" / "python")
            run_uv("pip", "install", "--quiet", "--python", python, "--find-links", str(client.parent), *wanted)
            made[packages] = folder / "bin"
        return made[packages]

    return make


@pytest.fixture(scope="session")
def install(environment: Environment) -> Install:
    """Make an environment with the client and an extra ("" for none); its bin folder."""
    return lambda extra: environment(f"odradek[{extra}]" if extra else "odradek")
