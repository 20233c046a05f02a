"""`odradek transactions`: transactional ids, and the abort of one that is open."""

from __future__ import annotations

from typing import Annotated

import typer

from odradek.cli.command_group import CommandGroup
from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, run
from odradek.cli.output import Output, OutputOption, show_rows
from odradek.cli.screen import confirm

transactions = typer.Typer(cls=CommandGroup, help="List and abort transactions.", no_args_is_help=True)


@transactions.command("list")
def list_all(
    only_open: Annotated[bool, typer.Option("--open", help="Only open transactions.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the transactional ids; open transactions come first, the oldest on top."""
    from odradek.operations import plain
    from odradek.operations.transactions import list_transactions
    from odradek.system import SystemClock

    transactions = run(
        bootstrap_servers, data_dir, lambda cluster: list_transactions(cluster.admin, SystemClock().now_ms())
    )
    rows = [plain(transaction) for transaction in transactions if transaction.is_open or not only_open]
    columns = ["transactional_id", "state", "age_ms", "timeout_ms", "partitions", "producer_id", "producer_epoch"]
    show_rows(rows, columns, output)


@transactions.command()
def abort(
    transactional_id: Annotated[str, typer.Argument(help="The transactional id.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Abort the open transaction of an id. It fences the producer: its next call fails."""
    confirm(f"Abort the transaction of {transactional_id} and fence its producer?", yes=yes)
    run(bootstrap_servers, data_dir, lambda cluster: cluster.admin.fence_producers([transactional_id]))
    typer.echo(f"aborted {transactional_id}")
