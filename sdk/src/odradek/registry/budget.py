"""What understanding or comparing schemas may cost.

A schema of 256 KB can be written so that comparing it means more work than anybody has: definitions that refer to each
other in every way, thousands of patterns beside thousands of names. So the pure parts count their steps, and what needs
more is refused, always and everywhere alike: the answer depends on the schema, not on the machine or its load.
"""

from __future__ import annotations

from odradek.registry.errors import SchemaInvalid

STEPS_MAX = 400_000  # of a microsecond or some: about a second


class Budget:
    """The steps of one question. Another thread may end it early."""

    def __init__(self, steps: int = STEPS_MAX) -> None:
        self._left = steps

    def spend(self, steps: int = 1) -> None:
        """Count steps. Raises SchemaInvalid when there were too many."""
        self._left -= steps
        if self._left < 0:
            raise SchemaInvalid("it takes too much work to check: make it smaller, or less entangled")

    def stop(self) -> None:
        """Nobody waits for the answer any more: the next step is the last."""
        self._left = -1
