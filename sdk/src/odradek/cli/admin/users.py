"""`odradek users`: users that may log in to the Kafka port."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from odradek.cli.command_group import CommandGroup
from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, admin
from odradek.cli.output import Output, OutputOption, show_data
from odradek.errors import ErrorCode, KafkaError

users = typer.Typer(cls=CommandGroup, help="Create, list and delete users of the Kafka port.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the user.")]


@users.command()
def create(
    name: Name,
    password: Annotated[
        str | None,
        typer.Option(
            envvar="ODRADEK_USER_PASSWORD",
            help="Prompted for if it is not given. Others on this machine can see an option's value.",
        ),
    ] = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Create a user who logs in with PLAIN or SCRAM, or change the password of one.

    Example: [bold]odradek users create ada[/bold]
    """
    if password is None:
        if not sys.stdin.isatty():
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, "there is no terminal to prompt for a password: set ODRADEK_USER_PASSWORD"
            )
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    with admin(bootstrap_servers, data_dir) as client:
        client.create_user(name, password)
    typer.echo(f"user {name} can log in")


@users.command()
def delete(name: Name, bootstrap_servers: Server = DEFAULT_SERVER, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Delete a user; existing connections stay open."""
    with admin(bootstrap_servers, data_dir) as client:
        client.delete_user(name)
    typer.echo(f"deleted user {name}")


@users.command("list")
def list_users(
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the users, one per line."""
    with admin(bootstrap_servers, data_dir) as client:
        names = client.list_users()
    if not show_data(names, output):
        for name in names:
            typer.echo(name)
