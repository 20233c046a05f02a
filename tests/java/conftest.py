"""`make java` only: fetches the jars and compiles the programs, then runs these tests."""

from __future__ import annotations

import pytest

from tests.java.programs import BUILD


@pytest.fixture(autouse=True, scope="session")
def java_clients() -> None:
    """Require the files that tools/java_clients.sh makes."""
    if not (BUILD / "classes" / ".complete").exists():
        pytest.skip("the Java clients are not here: `make java` fetches and compiles them")
