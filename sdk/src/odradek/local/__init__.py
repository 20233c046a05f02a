"""The embedded service: the same engine and functions as on AWS, in one process over SQLite and files.

    with odradek.local() as service:                        # or odradek.local("data") to keep it
        producer = odradek.Producer(**service.client_config)

`odradek.local` is this package, and calling it is `start_local`. `LocalService` is the async form, and
`python -m odradek.local --data-dir DIR --port N` a separate process; `odradek.local.client_config(DIR)` configures the
clients of a service that another process runs. The service needs the extra `local`; the
credentials that it leaves in its folder can be read without it, so names are imported on first use.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from odradek.extras import extra

if TYPE_CHECKING:
    from odradek.gateway import Listener
    from odradek.local.address import client_config
    from odradek.local.credentials import Credentials, load_credentials
    from odradek.local.server import FunctionLimits
    from odradek.local.service import LocalService
    from odradek.local.threaded import ThreadedService, start_local

__all__ = [
    "Credentials",
    "FunctionLimits",
    "Listener",
    "LocalService",
    "ThreadedService",
    "client_config",
    "load_credentials",
    "start_local",
]

_HOMES = {
    "Credentials": "odradek.local.credentials",
    "FunctionLimits": "odradek.local.server",
    "Listener": "odradek.gateway",
    "LocalService": "odradek.local.service",
    "ThreadedService": "odradek.local.threaded",
    "client_config": "odradek.local.address",
    "load_credentials": "odradek.local.credentials",
    "start_local": "odradek.local.threaded",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with extra("local"):
        value = getattr(import_module(home), name)
    globals()[name] = value
    return value


class _CallablePackage(ModuleType):
    """A name cannot be both a package and a function, but a package can be called."""

    def __call__(self, data_dir: Path | str | None = None, **options: Any) -> ThreadedService:
        start: Any = self.start_local
        service: ThreadedService = start(data_dir, **options)
        return service


sys.modules[__name__].__class__ = _CallablePackage
