"""Which tables have provisioned capacity, from a stage and from the context; every other table is on demand.

    -c capacity_log_writes=2500-6000 -c capacity_log_reads=2500-6000     also groups and catalog, each with both
    -c capacity_target=70                                                percent of the provisioned units, for all

docs/decisions/0076 says when that pays, docs/OPERATIONS.md how to choose the bounds.
"""

from __future__ import annotations

import re
from dataclasses import replace

from constructs import Node
from odradek.cost.tables import TARGET_PERCENT
from odradek.operations.health.capacity import TableCapacity

from infra.permissions import TableName
from infra.stages import Stage

_CONTEXT = "capacity_"
_RANGE = re.compile(r"(\d+)-(\d+)")
_KINDS = ("writes", "reads")


def with_capacities(stage: Stage, node: Node) -> Stage:
    """Return the stage with the capacities of the context in place of its own. Raises SystemExit for wrong ones."""
    target = _target(node)
    capacities: dict[str, TableCapacity] = {}
    for table in TableName:
        bounds = {direction: _bounds(node, f"{_CONTEXT}{table}_{direction}") for direction in _KINDS}
        given_bounds = {direction: bound for direction, bound in bounds.items() if bound is not None}
        if not given_bounds:
            continue
        if len(given_bounds) < len(_KINDS):
            [missing] = set(_KINDS) - set(given_bounds)
            raise SystemExit(
                f"infra: {table} has provisioned {', '.join(given_bounds)}: add -c {_CONTEXT}{table}_{missing}"
            )
        try:
            capacities[table] = TableCapacity(*given_bounds["writes"], *given_bounds["reads"], target or TARGET_PERCENT)
        except ValueError as error:
            raise SystemExit(f"infra: the capacity of the table {table}: {error}") from None
    if target is not None and not capacities:
        raise SystemExit(f"infra: -c {_CONTEXT}target is for tables with -c {_CONTEXT}<table>_writes and _reads")
    try:
        return replace(stage, capacities={**stage.capacities, **capacities})
    except ValueError as error:
        raise SystemExit(f"infra: {error}") from None


def _target(node: Node) -> int | None:
    text = str(node.try_get_context(f"{_CONTEXT}target") or "")
    if text and not text.isdigit():
        raise SystemExit(f"infra: {_CONTEXT}target must be a number of percent, not {text!r}")
    return int(text) if text else None


def _bounds(node: Node, key: str) -> tuple[int, int] | None:
    text = str(node.try_get_context(key) or "")
    if not text:
        return None
    match = _RANGE.fullmatch(text)
    if match is None:
        raise SystemExit(f"infra: {key} must be units a second like 2500-6000, not {text!r}")
    return int(match[1]), int(match[2])
