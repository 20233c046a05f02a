"""A limit on the work of parsing or comparing schemas.

A schema of 256 KB can be written so that a comparison practically never ends: definitions that all refer to each other,
thousands of patterns beside thousands of names. So the pure parts count their steps, and a schema that needs too many
is refused. The answer depends on the schema alone, not on the machine or its load.
"""

from __future__ import annotations

from odradek.registry.errors import SchemaInvalid

STEPS_MAX = 400_000  # of about a microsecond or more each: about a second


class Budget:
    """The steps left to one question. Another thread may end the question early."""

    def __init__(self, steps: int = STEPS_MAX) -> None:
        self._left = steps

    def spend(self, steps: int = 1) -> None:
        """Count steps. Raises SchemaInvalid once the budget is exceeded."""
        self._left -= steps
        if self._left < 0:
            raise SchemaInvalid("it is too complex to check: make it smaller, or refer less between its parts")

    def stop(self) -> None:
        """End the question at its next step, since no caller waits for the answer."""
        self._left = -1
