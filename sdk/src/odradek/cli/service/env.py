"""`odradek env`: the address and the credentials of a service as assignments of a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, client_configs
from odradek.errors import ErrorCode, KafkaError

VARIABLES = {
    "bootstrap_servers": "ODRADEK_BOOTSTRAP_SERVERS",
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_region": "AWS_REGION",
}


def env(bootstrap_servers: Server = DEFAULT_SERVER, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Print what other shells and programs need to use the embedded service, as `export` statements.

    Example: [bold]eval "$(odradek env)"[/bold]
    """
    typer.echo("\n".join(exports(bootstrap_servers, data_dir)))


def exports(bootstrap_servers: str, data_dir: Path) -> list[str]:
    """Return one `export NAME=value` for each variable. Raises KafkaError(INVALID_CONFIG)."""
    configs = client_configs(bootstrap_servers, data_dir)
    if "aws_access_key_id" not in configs:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{configs['bootstrap_servers']} is not an embedded service: its credentials are those of AWS's tools",
        )
    return [f"export {name}={shlex.quote(configs[config])}" for config, name in VARIABLES.items() if config in configs]
