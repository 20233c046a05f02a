"""The list: every mutant, by name."""

from __future__ import annotations

from tests.mutants import listed_groups, listed_log, listed_reads, listed_upkeep, rules
from tests.mutants.mutation import Mutant

_ALL: list[Mutant] = [
    *listed_log.MUTANTS,
    *listed_reads.MUTANTS,
    *listed_upkeep.MUTANTS,
    *listed_groups.MUTANTS,
    *rules.mutants(),
]
MUTANTS: dict[str, Mutant] = {each.name: each for each in _ALL}
assert len(MUTANTS) == len(_ALL), "a name stands twice in the list"

__all__ = ["MUTANTS"]
