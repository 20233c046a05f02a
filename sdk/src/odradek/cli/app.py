"""The tree of commands. A command's module is imported only to run it: `--version` and shell completion import neither
the gateway nor the libraries of a client (tests/unit/cli/test_light_commands.py)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from odradek.cli.command_group import CommandGroup
from odradek.cli.commands import COMMANDS, other_commands


class _Commands(CommandGroup):
    """The commands by name; each is created when it is first used."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete names of commands without importing any of them."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [_word(name) for name in COMMANDS if name.startswith(incomplete)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            home = COMMANDS.get(cmd_name)
            if home is not None:
                loaded = getattr(import_module(f"odradek.cli.{home.module}"), home.name)
            elif cmd_name in (others := other_commands()):
                loaded = others[cmd_name].load()
            else:
                return None
            self.commands[cmd_name] = _made(cmd_name, loaded)
        return self.commands[cmd_name]


def _word(name: str) -> Any:
    """Return a completion item for a shell; recent versions of Typer bundle Click."""
    click = next(base for base in CommandGroup.__mro__ if base.__name__ == "Command").__module__.removesuffix(".core")
    return import_module(f"{click}.shell_completion").CompletionItem(name)


def _made(name: str, loaded: Any) -> Any:
    """Return a command of a function or of a group of commands (typer.Typer)."""
    if isinstance(loaded, typer.Typer):
        command: Any = typer.main.get_group(loaded)
    else:
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        alone.command(name)(loaded)
        command = typer.main.get_command(alone)
    command.name = name
    return command


app = typer.Typer(
    cls=_Commands,
    name="odradek",
    help="Apache Kafka with no servers.\n\n"
    "Start with [bold]odradek local[/bold], then [bold]odradek topics create t[/bold].",
    no_args_is_help=True,
    add_completion=False,  # `odradek completion` prints the script; its options would cost every start 300 ms of CPU
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,  # answered in odradek.cli.run, which needs no Typer for it
    config_file: Annotated[
        Path | None,
        typer.Option("--config-file", help="Properties of clients, with Kafka's names; or ODRADEK_CLIENT_CONFIG."),
    ] = None,
) -> None:
    """Options before the command."""
    if config_file is not None:
        from odradek.cli.connection import use_config_file

        use_config_file(config_file)
