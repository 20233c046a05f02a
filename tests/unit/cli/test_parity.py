"""The command line has what the console has: every list and description as JSON and YAML, a command for every page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from odradek.cli.app import app
from odradek.cli.commands import COMMANDS
from odradek.cli.output import Output
from odradek.console.app import ROUTES
from typer.main import get_command

# Commands that print what there is. All others change something, run until Ctrl-C, or print a document as it is stored.
SHOWS = re.compile(
    r"list|describe|explain|segments|skew|consumers|in-flight|dead-letters|runs|progress|diff|check|plugins|validate|"
    r"top|offsets|get|range|search|query|doctor|audit|estimate|cost"
)
AS_STORED = {"connect offsets show", "connect config", "connect offsets"}  # Connect's own JSON, as its REST API has it

PAGES: dict[str, tuple[str, ...]] = {
    "/": ("top", "topics list", "groups list", "doctor"),
    "/events": ("top",),
    "/topics": ("topics list", "topics create"),
    "/topics-chosen": (),  # what a change of several topics would lose
    "/topics-chosen/change": ("topics delete", "topics delete-records"),
    "/topics/{name}": ("topics describe", "topics consumers", "topics segments", "topics skew", "acls list"),
    "/topics/{name}/configuration": ("topics alter",),
    "/topics/{name}/partitions": ("topics alter",),
    "/topics/{name}/delete-records": ("topics delete-records",),
    "/topics/{name}/delete": ("topics delete",),
    "/topics/{name}/produce": ("produce",),
    "/topics/{name}/records": ("search", "consume"),
    "/topics/{name}/records/search": ("search",),
    "/topics/{name}/records/tail": ("consume",),
    "/topics/{name}/records/download": ("search",),
    "/topics/{name}/records/{partition:partition}/{offset:offset}": ("consume",),
    "/topics/{name}/records/{partition:partition}/{offset:offset}/raw": ("consume",),
    "/topics/{name}/compare": ("consume",),
    "/groups": ("groups list",),
    "/groups/detail": ("groups describe", "groups in-flight", "groups dead-letters"),
    "/groups/lag": ("top",),
    "/groups/reset": ("groups reset-offsets",),
    "/groups/redrive": ("groups redrive",),
    "/groups/delete": ("groups delete",),
    "/schemas": ("schemas list",),
    "/schemas/detail": ("schemas describe", "schemas diff"),
    "/schemas/check": ("schemas check",),
    "/schemas/register": ("schemas register",),
    "/schemas/level": ("schemas set-compatibility",),
    "/schemas/delete": ("schemas delete",),
    "/sql": ("sql", "query", "search"),
    "/sql/words": (),  # completion within an editor
    "/sql/export": ("query",),
    "/sql/start": ("sql",),
    "/sql/stop": (),  # Ctrl-C
    "/connectors": ("connect list", "connect plugins"),
    "/connectors/detail": ("connect describe",),
    "/connectors/check": ("connect validate",),
    "/connectors/save": ("connect create", "connect config"),
    "/connectors/steer": ("connect pause", "connect resume", "connect stop", "connect restart"),
    "/connectors/offsets": ("connect offsets",),
    "/connectors/delete": ("connect delete",),
    "/tables": ("tables list", "tables serve"),
    "/tables/detail": ("tables describe", "tables get", "tables range"),
    "/tables/steer": ("tables stop", "tables resume"),
    "/tables/drop": ("tables drop",),
    "/triggers": ("triggers list", "triggers create"),
    "/triggers/detail": ("triggers describe",),
    "/triggers/steer": ("triggers pause", "triggers resume"),
    "/triggers/reset": ("triggers reset",),
    "/triggers/delete": ("triggers delete",),
    "/jobs": ("jobs list", "jobs runs"),
    "/jobs/runs": ("jobs runs", "jobs progress"),
    "/jobs/start": ("jobs start",),
    "/jobs/stop": ("jobs stop",),
    "/security": ("acls list", "acls explain", "users list", "quotas list"),
    "/security/acls": ("acls create",),
    "/security/acls/delete": ("acls delete",),
    "/security/users": ("users create",),
    "/security/users/delete": ("users delete",),
    "/security/quotas": ("quotas set", "quotas remove"),
    "/transactions": ("transactions list",),
    "/transactions/abort": ("transactions abort",),
    "/costs": ("cost estimate", "top"),
    "/health": ("doctor",),
    "/audit": (),  # of the console itself: --audit-file has the lines as JSON
    "/theme": (),
    "/sign-out": (),
}


def commands() -> dict[str, Any]:
    """Return all commands by their words, without `odradek`."""
    commands_by_words: dict[str, Any] = {}

    def walk(words: str, command: Any) -> None:
        for name, subcommand in getattr(command, "commands", {}).items():
            walk(f"{words} {name}".strip(), subcommand)
        if words:
            commands_by_words[words] = command

    root: Any = get_command(app)
    for name in COMMANDS:
        walk(name, root.get_command(None, name))
    return commands_by_words


ALL = commands()
SHOWING = sorted(
    words
    for words, command in ALL.items()
    if SHOWS.fullmatch(words.rpartition(" ")[2]) and not hasattr(command, "commands") and words not in AS_STORED
)


def test_the_walk_finds_the_commands() -> None:
    assert len(SHOWING) > 25
    assert {"topics list", "groups describe", "schemas list", "triggers describe", "jobs runs"} <= set(SHOWING)


@pytest.mark.parametrize("words", SHOWING)
def test_what_a_command_shows_is_printed_as_json_and_yaml(words: str) -> None:
    options = {name: param for param in ALL[words].params for name in param.opts}
    assert "--output" in options, f"odradek {words} has no --output"
    values = {str(choice.value) for choice in options["--output"].type_descriptor.annotation}
    assert values >= {output.value for output in Output}


def test_every_page_has_its_command() -> None:
    assert {route.path for route in ROUTES} == set(PAGES), "a page without a line in this table"
    missing = {path: words for path, words_of_page in PAGES.items() for words in words_of_page if words not in ALL}
    assert missing == {}


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("groups describe", "--all"),
        ("topics create", "--if-not-exists"),
        ("produce", "--value-format"),
        ("consume", "--value-format"),
        ("produce", "--key-format"),
        ("consume", "--key-format"),
        ("groups reset-offsets", "--dry-run"),
        ("triggers reset", "--dry-run"),
        ("search", "--where"),
    ],
)
def test_a_command_has_an_option(words: str, option: str) -> None:
    assert option in {name for param in ALL[words].params for name in param.opts}
