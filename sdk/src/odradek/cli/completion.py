"""`odradek completion SHELL`, and the names that a shell completes: commands, options, topics and groups.

The command prints a script and installs nothing. Commands and options are completed without a service and without the
libraries of a client. Names of topics and groups are requested from the service that the options on the line name. If
it does not answer within a moment, none are offered.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

_PATIENCE_MS = 2_000


class Shell(StrEnum):
    """Shells with a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print the completion script of a shell: commands, options, and names of topics and groups.

    bash: [bold]eval "$(odradek completion bash)"[/bold] in ~/.bashrc; zsh: the same in ~/.zshrc, after compinit;
    fish: [bold]odradek completion fish > ~/.config/fish/completions/odradek.fish[/bold]
    """
    from typer._completion_shared import get_completion_script

    typer.echo(get_completion_script(prog_name="odradek", complete_var="_ODRADEK_COMPLETE", shell=shell.value))


def topic_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the topics whose names begin with `incomplete`."""
    return _names(ctx, incomplete, lambda client: client.list_topics())


def group_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the groups of all kinds whose ids begin with `incomplete`."""
    return _names(ctx, incomplete, lambda client: [group.group_id for group in client.list_consumer_groups()])


def _names(ctx: typer.Context, incomplete: str, ask: Callable[[Any], list[str]]) -> list[str]:
    """Return the names from the service that the options name; none after an error, for which a shell has no use."""
    from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, client_configs
    from odradek.errors import OdradekError

    server = ctx.params.get("bootstrap_servers") or os.environ.get("ODRADEK_BOOTSTRAP_SERVERS") or DEFAULT_SERVER
    data_dir = ctx.params.get("data_dir") or os.environ.get("ODRADEK_DATA_DIR") or DEFAULT_DATA_DIR
    try:
        from odradek import Admin

        patience = {"request_timeout_ms": _PATIENCE_MS, "default_api_timeout_ms": _PATIENCE_MS}
        with Admin(**client_configs(server, Path(data_dir)), **patience) as client:
            return sorted(name for name in ask(client) if name.startswith(incomplete))
    except (OdradekError, OSError):
        return []
