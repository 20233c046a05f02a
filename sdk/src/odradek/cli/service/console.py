"""`odradek console`: the console in a browser, against any Odradek."""

from __future__ import annotations

import asyncio
import signal
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, connected
from odradek.extras import extra

if TYPE_CHECKING:
    from odradek.client.profiles import Profile
    from odradek.console.clusters import OtherCluster
    from odradek.console.serving import RunningConsole
    from odradek.operations.cluster import Cluster

DEFAULT_CONSOLE_PORT = 9293

ReadOnly = Annotated[bool, typer.Option("--read-only", help="Refuse everything that changes something.")]


def console(
    port: Annotated[
        int, typer.Option("--port", help="Port of the console; 0 takes a free one.")
    ] = DEFAULT_CONSOLE_PORT,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; beyond the loopback interface put TLS in front.")
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="Another host name (with its port) under which browsers call; may be repeated."),
    ] = None,
    read_only: ReadOnly = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the link and open no browser.")] = False,
    audit_file: Annotated[
        Path | None, typer.Option("--audit-file", help="Append a line of JSON for each change to this file.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", help="A deployment that `odradek configure` saved, by its profile.")
    ] = None,
    stack: Annotated[
        str | None, typer.Option("--stack", help="A deployment by the name of its stacks, odradek-prod.")
    ] = None,
    region: Annotated[str | None, typer.Option("--region", envvar="AWS_REGION", help="AWS region of --stack.")] = None,
    registry: Annotated[
        str | None,
        typer.Option("--registry", help="URL of the schema registry of a Kafka port: https://user:password@host"),
    ] = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Open the console in a browser: topics, records, groups, schemas, security, cost.

    The link signs in once; Enter prints another one. The console has your own rights: ACLs apply. Deployments that
    [bold]odradek configure[/bold] saved can be chosen in it, too.

    Examples: [bold]odradek console[/bold], [bold]odradek console --read-only[/bold],
    [bold]odradek console --stack odradek-prod[/bold], [bold]odradek console -b kafka://broker:9092[/bold]
    """
    with extra("console"):
        import odradek.console.serving  # noqa: F401  (what is missing is named before anything else)
    chosen = _deployment(profile, stack, region)
    cluster = connected(bootstrap_servers, data_dir, chosen=chosen, client_id="odradek-console", registry_url=registry)
    options: dict[str, Any] = {"read_only": read_only, "hosts": tuple(name or ())}
    if audit_file is not None:
        options["audit_file"] = str(audit_file)
    others = _other_clusters(cluster.address, data_dir)
    asyncio.run(_serve(cluster, host, port, options, others, opens_browser=not no_browser))


def _deployment(profile: str | None, stack: str | None, region: str | None) -> Profile | None:
    """Return the deployment that the options name, None if they name none. Raises KafkaError(INVALID_CONFIG)."""
    from odradek.client.profiles import FILE, load_profile
    from odradek.errors import ErrorCode, KafkaError

    if profile and stack:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give --profile or --stack, not both")
    if profile:
        return load_profile(FILE.expanduser(), profile)
    if stack:
        from odradek.cli.service.configure import describe_deployment

        return describe_deployment(stack, region)
    return None


def _other_clusters(address: str, data_dir: Path) -> list[OtherCluster]:
    """Return the deployments of all profiles but the one at this address; a profile that is damaged is left out."""
    from odradek.client.profiles import FILE, load_profile, profile_names
    from odradek.console.clusters import NAME, OtherCluster
    from odradek.errors import KafkaError

    path, others = FILE.expanduser(), []
    for name in profile_names(path):
        try:
            profile = load_profile(path, name)
        except KafkaError as error:
            typer.echo(f"{error.message}; the console leaves it out", err=True)
            continue
        if profile is None or profile.bootstrap_servers == address or not NAME.fullmatch(name):
            continue
        make = partial(connected, "", data_dir, chosen=profile, client_id="odradek-console")
        others.append(OtherCluster(name, profile.bootstrap_servers, make))
    return others


async def _serve(
    cluster: Cluster,
    host: str,
    port: int,
    options: dict[str, Any],
    others: Sequence[OtherCluster],
    *,
    opens_browser: bool,
) -> None:
    from odradek.console.serving import serve_console
    from odradek.console.settings import ConsoleSettings

    if host not in ("127.0.0.1", "localhost", "::1"):
        typer.echo(
            f"anyone who reaches {host} can read the links that pass by: put TLS in front, and name its host by --name",
            err=True,
        )
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with serve_console(cluster, ConsoleSettings(**options), host=host, port=port, others=others) as running:
        show_link(running, opens_browser=opens_browser)
        print_more_links(running)
        await stopping.wait()


def show_link(running: RunningConsole, *, opens_browser: bool) -> None:
    """Print a link that signs in, and open it where there is a screen."""
    link = running.sign_in_url()
    typer.echo(f"console on {running.url}; this link signs in once:\n  {link}")
    if opens_browser and sys.stdout.isatty():
        with suppress(webbrowser.Error):
            webbrowser.open(link)


def print_more_links(running: RunningConsole) -> None:
    """Print another link at each Enter, on a terminal."""
    if not sys.stdin.isatty():
        return

    def entered() -> None:
        if sys.stdin.readline():
            typer.echo(f"  {running.sign_in_url()}")
        else:
            asyncio.get_running_loop().remove_reader(sys.stdin)

    with suppress(NotImplementedError, OSError):
        asyncio.get_running_loop().add_reader(sys.stdin, entered)
