"""worker.py over a store that answers before it commits: what test_killed.py must find out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from odradek.adapters.embedded import database

from tests.e2e.crash import worker

COMMIT_TAKES_S = 0.05


class LyingDatabase(database.Database):
    """Says yes, then writes."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._commits_directly = False  # who commits in its caller's thread answers by returning

    def _store(self, states: dict[database.Place, database.State]) -> database.StoreError | None:
        database._answer(self._lied_to)
        time.sleep(COMMIT_TAKES_S)
        return super()._store(states)

    def _commit(self, group: Sequence[database._Request]) -> None:
        self._lied_to = [request for request in group if isinstance(request, database._Queued)]
        super()._commit(group)


if __name__ == "__main__":
    import odradek.adapters.embedded.store

    odradek.adapters.embedded.store.Database = LyingDatabase  # type: ignore[misc]
    worker.main()
