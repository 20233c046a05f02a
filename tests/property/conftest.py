"""hypothesis for all property tests: machines differ in speed, so no example has a deadline; pytest ends what hangs."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("odradek", deadline=None)
settings.load_profile("odradek")
