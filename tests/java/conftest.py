"""`make java` only: fetches the jars and compiles the programs, then runs these tests."""

from __future__ import annotations

import pytest

from tests.java.programs import BUILD


@pytest.fixture(autouse=True, scope="session")
def java_clients() -> None:
    """What tools/java_clients.sh makes must be there."""
    if not (BUILD / "classes" / ".complete").exists():
        pytest.skip("the Java clients are not here: `make java` fetches and compiles them")
