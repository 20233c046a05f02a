"""Composition roots of the functions: one handler per folder, all built by wiring.py.

Lambda imports this package before any handler, hence before any dataclass of ours is defined.
"""

from __future__ import annotations

import os

from odradek.functions import collector, compiled_dataclasses

compiled_dataclasses.use()
if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    collector.rest()  # until the first request
