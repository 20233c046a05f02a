"""The tree of commands."""

from __future__ import annotations

from typing import Annotated

import typer

from odradek.cli.acls import acls
from odradek.cli.audit import audit
from odradek.cli.completion import completion
from odradek.cli.configure import configure
from odradek.cli.cost import cost
from odradek.cli.demo_command import demo
from odradek.cli.doctor import doctor
from odradek.cli.gateway_command import gateway
from odradek.cli.groups import groups
from odradek.cli.local_command import local
from odradek.cli.offsets import offsets
from odradek.cli.perf import perf
from odradek.cli.records import consume, produce
from odradek.cli.sql import sql
from odradek.cli.topics import topics
from odradek.cli.users import users

app = typer.Typer(
    name="odradek",
    help="Apache Kafka with no servers.\n\n"
    "Start with [bold]odradek local[/bold], then [bold]odradek topics create t[/bold].",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"odradek {version('odradek')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options before the command."""


app.command()(local)
app.command()(gateway)
app.add_typer(topics, name="topics")
app.command()(produce)
app.command()(consume)
app.command()(offsets)
app.add_typer(groups, name="groups")
app.add_typer(users, name="users")
app.add_typer(acls, name="acls")
app.add_typer(perf, name="perf")
app.command()(audit)
app.add_typer(cost, name="cost")
app.command()(configure)
app.command()(doctor)
app.command()(demo)
app.command()(sql)
app.command()(completion)
