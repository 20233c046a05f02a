"""The embedded service: the same engine and functions as on AWS, in one process over SQLite and files.

    with odradek.local() as service:                        # or odradek.local("data") to keep it
        producer = odradek.Producer(**service.client_config)

`odradek.local` is this package, and calling it is `start_local`. `LocalService` is the async form, and
`python -m odradek.local --data-dir DIR --port N` a process of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from odradek.gateway import Listener
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
    "load_credentials",
    "start_local",
]


class _CallablePackage(ModuleType):
    """A name cannot be both a package and a function, but a package can be called."""

    def __call__(self, data_dir: Path | str | None = None, **options: Any) -> ThreadedService:
        return start_local(data_dir, **options)


sys.modules[__name__].__class__ = _CallablePackage
