"""The table of clients' versions in docs/CLIENTS.md is what `make peers-clients` found."""

from __future__ import annotations

from tests.peers.clients import kept
from tests.peers.clients.matrix import CLIENTS, TASKS
from tests.support.counted import at_least


def test_the_page_shows_the_kept_results() -> None:
    assert kept.PAGE.read_text(encoding="utf-8") == kept.page(), "make reference"


def test_every_version_of_the_matrix_was_run_and_did_every_task() -> None:
    results = {(result.client, result.version): result for result in kept.read()}
    assert list(results) == [(client.name, client.version) for client in CLIENTS]
    for result in results.values():
        assert result.missing or list(result.tasks) == list(TASKS)
        assert result.failures == {}


def test_what_may_fail_is_said_in_the_matrix_alone() -> None:
    reasons = {(client.name, client.version): dict(client.expected) for client in CLIENTS}
    for result in at_least(1, kept.read()):
        expected = {
            task: outcome.removeprefix("expected: ")
            for task, outcome in result.tasks.items()
            if outcome.startswith("expected")
        }
        assert result.missing or expected == reasons[result.client, result.version]
