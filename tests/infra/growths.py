"""Topics that grow, as functions with their permissions do it."""

from __future__ import annotations

from unittest.mock import patch

from odradek.engine.catalog import topics as topics_module
from odradek.engine.engine import Engine


async def growths(admin: Engine, coordinator: Engine) -> None:
    """A topic grows in order, then the coordinator finishes what an admin function has only begun."""
    await admin.topics.create("grown", 2)
    for count in (4, 8, 9):
        topic = await admin.topics.resolve("grown")
        await admin.topics._begin_growth(topic, count)
        begun = await coordinator.topics.resolve("grown")
        assert begun.growing is not None
        with patch.object(topics_module, "_GROWTH_MS", 0):
            assert (await coordinator.topics.resume_growth(begun)).partition_count == count
        admin.topics.forget(begun)
    await admin.topics.delete("grown")
