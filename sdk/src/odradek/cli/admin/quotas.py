"""`odradek quotas`: client quotas of users, client ids and IP addresses."""

from __future__ import annotations

from typing import Annotated

import typer

from odradek.cli.command_group import CommandGroup
from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, admin
from odradek.cli.output import Output, OutputOption, show_rows
from odradek.errors import ErrorCode, KafkaError
from odradek.model.quota import ADDRESS_QUOTAS, CLIENT_QUOTAS, DEFAULT, QuotaEntity

quotas = typer.Typer(cls=CommandGroup, help="Set, list and remove client quotas.", no_args_is_help=True)

_DEFAULT_NAME = "default"
User = Annotated[str | None, typer.Option("--user", help="Name of a user; default: each user without a quota.")]
Client = Annotated[str | None, typer.Option("--client-id", help="A client id; default: each one without a quota.")]
Address = Annotated[str | None, typer.Option("--ip", help="An IP address; default: each one without a quota.")]


@quotas.command("set")
def set_quotas(
    values: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE...", help=f"{', '.join(CLIENT_QUOTAS + ADDRESS_QUOTAS)}.")
    ],
    user: User = None,
    client_id: Client = None,
    ip: Address = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Set quotas of a user, a client id, both, or an IP address; its other quotas stay.

    Example: [bold]odradek quotas set producer_byte_rate=1000000 --user ada[/bold]
    """
    limits = {name: _number(name, text) for name, _, text in (value.partition("=") for value in values)}
    with admin(bootstrap_servers, data_dir) as client:
        client.alter_client_quotas(_entity(user, client_id, ip), limits)
    typer.echo(f"set {', '.join(limits)}")


@quotas.command()
def remove(
    names: Annotated[list[str], typer.Argument(help="Names of the quotas.")],
    user: User = None,
    client_id: Client = None,
    ip: Address = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Remove quotas of a user, a client id, both, or an IP address."""
    with admin(bootstrap_servers, data_dir) as client:
        client.alter_client_quotas(_entity(user, client_id, ip), dict.fromkeys(names))
    typer.echo(f"removed {', '.join(names)}")


@quotas.command("list")
def list_quotas(
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the quotas, one per line."""
    with admin(bootstrap_servers, data_dir) as client:
        values_by_entity = client.describe_client_quotas()
    rows = [
        {
            "user": _name(entity.user),
            "client_id": _name(entity.client_id),
            "ip": _name(entity.ip),
            "quota": name,
            "value": value,
        }
        for entity, values in sorted(values_by_entity.items(), key=lambda item: [name or "" for name in item[0]])
        for name, value in sorted(values.items())
    ]
    show_rows(rows, ["user", "client_id", "ip", "quota", "value"], output)


def _entity(user: str | None, client_id: str | None, ip: str | None) -> QuotaEntity:
    if user is None and client_id is None and ip is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give --user, --client-id or --ip")
    return QuotaEntity(*(DEFAULT if name == _DEFAULT_NAME else name for name in (user, client_id, ip)))


def _name(name: str | None) -> str | None:
    return _DEFAULT_NAME if name == DEFAULT else name


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} needs a number: write {name}=1000") from None
