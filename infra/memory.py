"""The memory of functions, from a stage and from the context; every other function has that of stages.FUNCTION_SIZES.

    -c memory_mb=produce=512,fetch=512

Memory is billed for the time in which a function waits, too, and buys its share of a processor: docs/decisions/0082
says when less of it pays.
"""

from __future__ import annotations

from dataclasses import replace

from constructs import Node

from infra.stages import Stage

_CONTEXT = "memory_mb"


def with_memory(stage: Stage, node: Node) -> Stage:
    """Return the stage with the memory of the context in place of its own. Raises SystemExit for wrong ones."""
    text = str(node.try_get_context(_CONTEXT) or "")
    memory_mb: dict[str, int] = {}
    for pair in filter(None, (pair.strip() for pair in text.split(","))):
        function, equals, megabytes = pair.partition("=")
        if not (function and equals and megabytes.isdigit()):
            raise SystemExit(f"infra: -c {_CONTEXT} is function=megabytes,..., not {text!r}")
        memory_mb[function] = int(megabytes)
    try:
        return replace(stage, memory_mb={**stage.memory_mb, **memory_mb})
    except ValueError as error:
        raise SystemExit(f"infra: {error}") from None
