"""For all tests: run in several processes, a file's tests stay in one of them.

`make test` runs with `--dist loadgroup`. Tests of a mark `xdist_group("name")` share a process (infra's templates, a
Spark session); all others share one with their file, so that what a file's fixtures build is built once.
"""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(config.rootpath).as_posix()))
