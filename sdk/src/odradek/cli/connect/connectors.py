"""`odradek connect`: run a worker, and manage connectors.

Every command but `run` works on the cluster's topics: no worker has to be reached.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.command_group import CommandGroup
from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, client_configs, pairs
from odradek.cli.output import Output, OutputOption, show_data, show_rows
from odradek.cli.screen import confirm
from odradek.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from odradek.connect.runtime.cluster import Cluster
    from odradek.connect.settings import WorkerSettings

connect = typer.Typer(cls=CommandGroup, help="Run connectors: data into topics and out of them.", no_args_is_help=True)
offsets = typer.Typer(cls=CommandGroup, help="Show, change and reset a connector's offsets.", no_args_is_help=True)
connect.add_typer(offsets, name="offsets")

Group = Annotated[str, typer.Option("--group", "-g", help="Name of the Connect cluster (group.id).")]
ConnectorName = Annotated[str, typer.Argument(help="Name of the connector.")]
WorkerConfig = Annotated[
    list[str] | None, typer.Option("--config", "-c", help="A worker's configuration, name=value; repeat it.")
]
_DEFAULT_GROUP = "connect"
_LEAVE_S = 5.0  # for clients to leave their groups and close, after the units have stopped
_LOOK_S = 0.5


def _settings(server: str, data_dir: Path, group: str, configs: dict[str, str]) -> WorkerSettings:
    from odradek.connect.settings import WorkerSettings

    with _as_kafka_errors():
        return WorkerSettings.of({"group.id": group, **configs}, client_configs(server, data_dir), os.environ)


@contextmanager
def _as_kafka_errors() -> Iterator[None]:
    """Turn a wrong configuration into the error for which the command line has an exit code."""
    from odradek.connect.errors import BadRequest, ConfigError

    try:
        yield
    except (ConfigError, BadRequest) as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None


@contextmanager
def _cluster(server: str, data_dir: Path, group: str) -> Iterator[Cluster]:
    from odradek.connect.runtime.cluster import Cluster

    settings = _settings(server, data_dir, group, {})
    with _as_kafka_errors(), Cluster(settings) as cluster:
        yield cluster


def _json_of(source: str) -> dict[str, Any]:
    """Return the JSON object of a file, or of standard input for `-`."""
    text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    try:
        document = json.loads(text)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{source} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{source} must be a JSON object")
    return document


@connect.command("run")
def run(
    server: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    group: Group = _DEFAULT_GROUP,
    config: WorkerConfig = None,
    connectors: Annotated[
        list[Path] | None, typer.Argument(help="JSON files of connectors to create or change at the start.")
    ] = None,
) -> None:
    """Run a worker until Ctrl-C; several of them share the connectors and tasks.

    Example: [bold]odradek connect run --config listeners=http://127.0.0.1:8083 orders.json[/bold]
    """
    from odradek.connect.rest.server import RestServer
    from odradek.connect.runtime.cluster import Cluster
    from odradek.connect.runtime.worker import Worker, collect_rarely

    collect_rarely()
    settings = _settings(server, data_dir, group, pairs(config, "--config"))
    stopping = _stopped_by_signals(settings["task.shutdown.graceful.timeout.ms"] / 1000)
    with _as_kafka_errors(), Cluster(settings) as cluster:
        for path in connectors or ():
            document = _json_of(str(path))
            name = str(document.get("name") or path.stem)
            _, is_new = cluster.put_config(name, document.get("config", document))
            typer.echo(f"{'created' if is_new else 'changed'} {name}")
        servers = [RestServer(cluster, listener) for listener in settings["listeners"]]
        try:
            urls = [server.start().url for server in servers]
            with Worker(settings, address=urls[0].removeprefix("http://") if urls else "") as worker:
                typer.echo(f"ready: group {settings.group_id}, REST API on {', '.join(urls) or 'no address'}")
                while not stopping.wait(_LOOK_S):
                    worker.check()
                typer.echo("stopping")
        finally:
            for rest_server in servers:
                rest_server.stop()


def _stopped_by_signals(graceful_s: float) -> threading.Event:
    """Return an event that SIGTERM and SIGINT set.

    A process whose service is gone cannot leave its group: its clients would try for minutes. It ends all the same when
    its units have had their time; the service gives them to another worker when the session has ended.
    """
    stopping = threading.Event()

    def end() -> None:
        typer.echo("ended before the service had answered: it is told of this by the session's time-out", err=True)
        sys.stdout.flush()
        os._exit(1)

    def stop(*_: object) -> None:
        if not stopping.is_set():
            stopping.set()
            ending = threading.Timer(graceful_s + _LEAVE_S, end)
            ending.daemon = True
            ending.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return stopping


@connect.command("rest")
def rest(
    server: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    group: Group = _DEFAULT_GROUP,
    config: WorkerConfig = None,
) -> None:
    """Serve Kafka Connect's REST API until Ctrl-C, and run no connectors: for tools and consoles beside workers that
    have no address, as those on AWS. Its requests to the service have your rights.

    Example: [bold]odradek connect rest -b https://coordinator.example --config listeners=http://127.0.0.1:8083[/bold]
    """
    from odradek.connect.rest.server import RestServer
    from odradek.connect.runtime.cluster import Cluster

    settings = _settings(server, data_dir, group, pairs(config, "--config"))
    if not settings["listeners"]:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "listeners is empty: name an address, such as http://127.0.0.1:8083")
    stopping = _stopped_by_signals(settings["task.shutdown.graceful.timeout.ms"] / 1000)
    with _as_kafka_errors(), Cluster(settings) as cluster, ExitStack() as stack:
        urls = [stack.enter_context(RestServer(cluster, listener)).url for listener in settings["listeners"]]
        typer.echo(f"ready: group {settings.group_id}, REST API on {', '.join(urls)}")
        stopping.wait()
        typer.echo("stopping")


@connect.command("list")
def list_connectors(
    server: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    group: Group = _DEFAULT_GROUP,
    output: OutputOption = Output.TABLE,
) -> None:
    """List connectors with their states."""
    with _cluster(server, data_dir, group) as cluster:
        rows = []
        for name in cluster.connectors():
            status = cluster.status(name)
            rows.append(
                {
                    "connector": name,
                    "type": status["type"],
                    "state": status["connector"]["state"],
                    "tasks": [task["state"] for task in status["tasks"]],
                }
            )
    show_rows(rows, ["connector", "type", "state", "tasks"], output)


@connect.command("create")
def create(
    source: Annotated[str, typer.Argument(help="JSON file, as Kafka Connect's REST API takes it; - reads it.")],
    server: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    group: Group = _DEFAULT_GROUP,
    update: Annotated[bool, typer.Option("--update", help="Change the connector if it exists.")] = False,
) -> None:
    """Create a connector from {"name": ..., "config": {...}}, or from its configuration with a name.

    Example: [bold]odradek connect create orders.json[/bold]
    """
    document = _json_of(source)
    configs = document.get("config", document)
    name = str(document.get("name") or configs.get("name") or "")
    with _cluster(server, data_dir, group) as cluster:
        if update:
            _, is_new = cluster.put_config(name, configs)
            typer.echo(f"{'created' if is_new else 'changed'} {name}")
        else:
            cluster.create(name, configs, document.get("initial_state"))
            typer.echo(f"created {name}")


@connect.command("describe")
def describe(
    name: ConnectorName,
    server: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    group: Group = _DEFAULT_GROUP,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a connector: configuration, tasks, states, topics."""
    with _cluster(server, data_dir, group) as cluster:
        status, configs = cluster.status(name), cluster.config(name)
        topics = cluster.topics(name)[name]["topics"]
    if show_data({**status, "config": configs, "topics": topics}, output):
        return
    connector = status["connector"]
    typer.echo(f"{name}: {status['type']}, {connector['state']}, topics {', '.join(topics) or 'none yet'}")
    if "trace" in connector:
        typer.echo(connector["trace"])
    show_rows(
        [{"task": task["id"], **task} for task in status["tasks"]], ["task", "state", "worker_id", "trace"], output
    )
    show_rows([{"configuration": key, "value": configs[key]} for key in sorted(configs)], ["configuration", "value"])


@connect.command("config")
def change_config(
    name: ConnectorName,
    changes: Annotated[list[str], typer.Argument(help="name=value; name= removes it.")],
    server: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    group: Group = _DEFAULT_GROUP,
) -> None:
    """Change single configurations of a connector.

    Example: [bold]odradek connect config orders tasks.max=4[/bold]
    """
    with _cluster(server, data_dir, group) as cluster:
        cluster.patch_config(name, {key: value or None for key, value in pairs(changes, "--config").items()})
    typer.echo(f"changed {name}")


def _target(name: str, server: str, data_dir: Path, group: str, state: str, done: str) -> None:
    with _cluster(server, data_dir, group) as cluster:
        cluster.set_target(name, state)
    typer.echo(f"{done} {name}")


@connect.command("pause")
def pause(
    name: ConnectorName,
    server: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    group: Group = _DEFAULT_GROUP,
) -> None:
    """Pause a connector; its tasks stay where they are."""
    _target(name, server, data_dir, group, "PAUSED", "paused")


@connect.command("resume")
def resume(
    name: ConnectorName,
    server: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    group: Group = _DEFAULT_GROUP,
) -> None:
    """Resume a paused or stopped connector."""
    _target(name, server, data_dir, group, "STARTED", "resumed")


@connect.command("stop")
def stop(
    name: ConnectorName,
    server: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    group: Group = _DEFAULT_GROUP,
) -> None:
    """Stop a connector and its tasks; its offsets may be changed then."""
    _target(name, server, data_dir, group, "STOPPED", "stopped")


@connect.command("restart")
def restart(
    name: ConnectorName,
    server: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    group: Group = _DEFAULT_GROUP,
    tasks: Annotated[bool, typer.Option("--tasks/--no-tasks", help="Restart the tasks as well.")] = True,
    only_failed: Annotated[bool, typer.Option("--only-failed", help="Restart only what has failed.")] = False,
) -> None:
    """Restart a connector and its tasks."""
    with _cluster(server, data_dir, group) as cluster:
        cluster.restart(name, include_tasks=tasks, only_failed=only_failed)
    typer.echo(f"restarting {name}")


@connect.command("delete")
def delete(
    name: ConnectorName,
    server: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    group: Group = _DEFAULT_GROUP,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a connector. Its source offsets and its consumer group stay."""
    confirm(f"Delete the connector {name}?", yes=yes)
    with _cluster(server, data_dir, group) as cluster:
        cluster.delete(name)
    typer.echo(f"deleted {name}")


@connect.command("plugins")
def list_plugins(
    all_kinds: Annotated[bool, typer.Option("--all", help="Converters, transforms and predicates as well.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the connectors that are installed."""
    from odradek.connect.plugins import listing

    show_rows(list(listing(connectors_only=not all_kinds)), ["class", "type", "version"], output)


@connect.command("validate")
def validate(
    source: Annotated[str, typer.Argument(help="JSON file of a connector; - reads it.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """Check a connector's configuration; no service is needed."""
    from odradek.connect.validate import connector_class
    from odradek.connect.validate import validate as validated

    document = _json_of(source)
    configs = document.get("config", document)
    configs = {"name": document.get("name"), **configs}
    with _as_kafka_errors():
        results = validated(connector_class(configs), configs)
    rows = [{"configuration": name, "error": error} for name, result in results.items() for error in result.errors]
    if rows:
        show_rows(rows, ["configuration", "error"], output)
        raise typer.Exit(2)
    typer.echo("the configuration is valid")


@offsets.command("show")
def show_offsets(
    name: ConnectorName,
    server: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    group: Group = _DEFAULT_GROUP,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the offsets of a connector."""
    with _cluster(server, data_dir, group) as cluster:
        offsets = cluster.offsets(name)
    if not show_data(offsets, output):
        rows = [{key: json.dumps(value) for key, value in entry.items()} for entry in offsets["offsets"]]
        show_rows(rows, ["partition", "offset"], output)


@offsets.command("alter")
def alter_offsets(
    name: ConnectorName,
    source: Annotated[str, typer.Argument(help='JSON file {"offsets": [...]}, as `show --output json`; - reads it.')],
    server: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    group: Group = _DEFAULT_GROUP,
) -> None:
    """Set offsets of a stopped connector."""
    offsets = _json_of(source).get("offsets")
    with _cluster(server, data_dir, group) as cluster:
        typer.echo(cluster.alter_offsets(name, offsets if isinstance(offsets, list) else []))


@offsets.command("reset")
def reset_offsets(
    name: ConnectorName,
    server: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    group: Group = _DEFAULT_GROUP,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete all offsets of a stopped connector: it begins again."""
    confirm(f"Reset all offsets of {name}?", yes=yes)
    with _cluster(server, data_dir, group) as cluster:
        typer.echo(cluster.reset_offsets(name))
