"""The memory of functions, of a stage and of a deployment: what CloudFormation gets, and what is refused before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from infra.memory import with_memory
from infra.stages import FUNCTION_SIZES, STAGES
from tests.infra.conftest import Deployment


def context(value: str) -> Any:
    """A node whose context has this memory."""

    class Node:
        def try_get_context(self, key: str) -> str | None:
            return {"memory_mb": value}.get(key)

    return Node()


def test_functions_have_the_memory_of_the_context_before_that_of_the_stage(
    synthesize_stage: Callable[..., Deployment],
) -> None:
    stage = replace(STAGES["dev"], memory_mb={"produce": 768, "fetch": 768})
    deployment = synthesize_stage(stage, {"memory_mb": "produce=512, admin=256"})
    memory_by_function = {name: properties["MemorySize"] for name, properties in deployment.functions().items()}
    expected = {name: FUNCTION_SIZES[name].memory_mb for name in memory_by_function}
    assert memory_by_function == {**expected, "produce": 512, "fetch": 768, "admin": 256}


@pytest.mark.parametrize("text", ["512", "produce", "produce=", "produce=half", "=512", "produce:512"])
def test_what_is_not_a_function_and_its_megabytes_is_refused(text: str) -> None:
    with pytest.raises(SystemExit, match=r"memory_mb is function=megabytes"):
        with_memory(STAGES["dev"], context(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("consume=512", "consume is not one of admin, coordinator"),
        ("produce=128", "produce must have 256 to 10240 MB, not 128"),
        ("fetch=20000", "fetch must have 256 to 10240 MB, not 20000"),
        ("maintainer=512", "give it at least 768 MB, or lower merge_bytes_max"),
    ],
)
def test_memory_that_no_function_can_have_is_refused(text: str, message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        with_memory(STAGES["dev"], context(text))


def test_without_a_word_the_stage_stays_as_it_is() -> None:
    assert with_memory(STAGES["prod"], context("")) == STAGES["prod"]
