"""For all tests: run in several processes, a file's tests stay in one of them.

What a file's fixtures build is built once that way. Some folders share a process as a whole, since what they build
together costs most: CDK's templates, a Spark session. They begin first, or the others would wait for them in the end.
"""

from __future__ import annotations

import gc
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.examples import examples

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

settings.register_profile(
    "odradek",
    derandomize=os.environ.get("ODRADEK_EXPLORE", "") == "",
    max_examples=examples(100),
    deadline=None,  # machines differ in speed; pytest ends what hangs
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("odradek")

gc.disable()  # until the tests are collected: they all stay, and a fifth of the time would go into looking at them

TOGETHER = {
    "spark": (
        *("tests/integration/spark/", "tests/integration/sql/", "tests/integration/jobs/"),
        *("tests/unit/glue_jobs/", "tests/e2e/pipeline/", "tests/e2e/demo/", "tests/conformance/"),
    ),
    "cdk": ("tests/infra/",),
}


def scope_of(nodeid: str) -> str:
    """The tests that share a process with this one: a name of TOGETHER, or its file."""
    for name, folders in TOGETHER.items():
        if nodeid.startswith(folders):
            return name
    return nodeid.partition("::")[0]


SLOW_UNTIL = "ODRADEK_SLOW_UNTIL"  # seconds since the epoch: no slow test begins after that


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out the slow tests for which a run has no time left, and say so: it would be ended without a result."""
    until = os.environ.get(SLOW_UNTIL)
    if until and item.get_closest_marker("slow") is not None and time.time() > float(until):
        pytest.skip(f"the run is over its time ({SLOW_UNTIL}): this machine is slow; `make test-slow` runs it")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: scope_of(item.nodeid) not in TOGETHER)


def pytest_collection_finish() -> None:
    """Freeze the objects loaded by now: garbage collections during the tests do not look at it again."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Of our own: xdist's loadgroup finds its marks no more in this pytest, and says nothing."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    config.option.loadscopereorder = False  # else those with the most tests go first, and Spark's few last
    return Scheduler(config, log)
