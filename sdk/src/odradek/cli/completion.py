"""`odradek completion SHELL`: the script that makes the shell complete commands and options. Nothing is installed."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """Shells that a script can be had for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print the completion script of a shell.

    bash: [bold]eval "$(odradek completion bash)"[/bold] in ~/.bashrc; zsh: the same in ~/.zshrc, after compinit;
    fish: [bold]odradek completion fish > ~/.config/fish/completions/odradek.fish[/bold]
    """
    from typer._completion_shared import get_completion_script

    typer.echo(get_completion_script(prog_name="odradek", complete_var="_ODRADEK_COMPLETE", shell=shell.value))
