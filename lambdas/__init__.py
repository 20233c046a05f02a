"""Composition roots of the functions: one handler per folder, all built by wiring.py.

Lambda imports this package before any handler, hence before any dataclass of ours is defined.
"""

from __future__ import annotations

from odradek.functions import compiled_dataclasses

compiled_dataclasses.use()
