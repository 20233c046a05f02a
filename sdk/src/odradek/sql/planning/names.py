"""Names of columns that have no alias."""

from __future__ import annotations


class GeneratedNames:
    """KSQL_COL_0, KSQL_COL_1 ..., and names of fields of structs.

    Args:
        taken: names of the columns of the sources; none of them is given again.
    """

    def __init__(self, taken: set[str]) -> None:
        self._taken = set(taken)
        self._number = 0

    def next(self) -> str:
        while (name := f"KSQL_COL_{self._number}") in self._taken:
            self._number += 1
        self._number += 1
        return name

    def of_field(self, name: str) -> str:
        """Return a field's name, with a number if it is taken."""
        found, number = name, 0
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found
