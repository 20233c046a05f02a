"""The options that every command shares: the address of the service, and the credentials.

Without options, a command uses the embedded service that `odradek local` started in the current folder.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlsplit

import typer

from odradek.cli.completion import group_names, topic_names
from odradek.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from odradek.client.profiles import Profile
    from odradek.operations.cluster import Cluster

T = TypeVar("T")

DEFAULT_DATA_DIR = Path(".odradek")
DEFAULT_PORT = 9292
DEFAULT_SERVER = f"http://127.0.0.1:{DEFAULT_PORT}"

Server = Annotated[
    str,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        envvar="ODRADEK_BOOTSTRAP_SERVERS",
        help="URL of the coordinator function, or of the service that `odradek local` started; kafka://host:port is "
        "any Kafka port.",
    ),
]
DataDir = Annotated[
    Path,
    typer.Option(
        "--data-dir", envvar="ODRADEK_DATA_DIR", help="Folder of the embedded service: records and credentials."
    ),
]

TopicName = Annotated[str, typer.Argument(help="Name of the topic.", autocompletion=topic_names)]
GroupId = Annotated[str, typer.Argument(help="Id of the group.", autocompletion=group_names)]


def profile() -> Profile | None:
    """The profile that ODRADEK_PROFILE names, or the default one. Raises KafkaError(INVALID_CONFIG)."""
    from odradek.client.profiles import FILE, load_profile

    return load_profile(FILE.expanduser(), os.environ.get("ODRADEK_PROFILE"))


def client_configs(bootstrap_servers: str, data_dir: Path) -> dict[str, Any]:
    """Return the configuration of a client, with the folder's credentials for an embedded service, else AWS's.

    Without an address it is that of the service that runs on the folder; without an embedded service in the folder, the
    profile of `odradek configure` is used.
    """
    from_file = file_configs()
    if bootstrap_servers == DEFAULT_SERVER and "bootstrap_servers" in from_file:
        bootstrap_servers = str(from_file["bootstrap_servers"])
    return _found_configs(bootstrap_servers, data_dir, from_file) | {
        name: value for name, value in from_file.items() if name != "bootstrap_servers"
    }


def _found_configs(bootstrap_servers: str, data_dir: Path, from_file: dict[str, Any]) -> dict[str, Any]:
    """Return address and credentials from the folder, the profile or the environment."""
    from odradek.local.address import load_address
    from odradek.local.credentials import FILE_NAME as LOCAL_CREDENTIALS
    from odradek.local.credentials import KEY_ID_PREFIX, load_credentials

    if bootstrap_servers == DEFAULT_SERVER and not (data_dir / LOCAL_CREDENTIALS).exists():
        chosen_profile = profile()
        if chosen_profile is not None:
            return {
                "bootstrap_servers": chosen_profile.bootstrap_servers,
                "client_id": "odradek-cli",
                "aws_region": chosen_profile.region,
            }
    if bootstrap_servers == DEFAULT_SERVER:  # not given: the folder knows where its service listens
        bootstrap_servers = load_address(data_dir) or DEFAULT_SERVER
    configs: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, "client_id": "odradek-cli"}
    if "aws_access_key_id" in from_file or bootstrap_servers.startswith("kafka://"):
        return configs
    is_local = urlsplit(bootstrap_servers).hostname in ("127.0.0.1", "localhost", "::1")
    # AWS credentials in the environment are not those of an embedded service.
    key_id = os.environ.get("AWS_ACCESS_KEY_ID", "")
    if is_local and not key_id.startswith(KEY_ID_PREFIX) and (not key_id or (data_dir / LOCAL_CREDENTIALS).exists()):
        if not (data_dir / LOCAL_CREDENTIALS).exists():
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"no credentials found: {data_dir} is not the folder of an embedded service. Start one with "
                "`odradek local`, or set --data-dir to its folder",
            )
        credentials = load_credentials(data_dir)
        configs |= {
            "aws_access_key_id": credentials.access_key_id,
            "aws_secret_access_key": credentials.secret_access_key,
            "aws_region": credentials.region,
        }
    return configs


def connected(
    bootstrap_servers: str,
    data_dir: Path,
    *,
    chosen: Profile | None = None,
    client_id: str | None = None,
    registry_url: str | None = None,
) -> Cluster:
    """Return a cluster that is not started yet, with its store where that can be read: the folder's, or the profile's.

    Args:
        chosen: a deployment, whatever the folder has.
        registry_url: of a schema registry beside a Kafka port; "https://user:password@host" logs in.

    Raises KafkaError(INVALID_CONFIG).
    """
    from odradek.operations.cluster import Cluster
    from odradek.operations.storage import StorePlace

    if chosen is not None:
        configs = {"bootstrap_servers": chosen.bootstrap_servers, "aws_region": chosen.region}
    else:
        configs = client_configs(bootstrap_servers, data_dir)
    if client_id is not None:
        configs["client_id"] = client_id
    address = str(configs.get("bootstrap_servers") or "")
    store = None
    if chosen is not None:
        store = StorePlace.of_deployment(chosen.outputs, chosen.region)
    elif urlsplit(address).scheme == "http" and urlsplit(address).hostname in ("127.0.0.1", "localhost", "::1"):
        store = StorePlace.of_folder(data_dir)
    else:
        chosen_profile = profile()
        if chosen_profile is not None and chosen_profile.bootstrap_servers == address:
            store = StorePlace.of_deployment(chosen_profile.outputs, chosen_profile.region)
    return Cluster(configs, store, registry_url)


_config_file: list[Path] = []  # of the root option --config-file


def use_config_file(path: Path) -> None:
    """Take configurations of clients from a properties file from now on."""
    _config_file[:] = [path]


def file_configs() -> dict[str, Any]:
    """Return the configurations of the file that --config-file or ODRADEK_CLIENT_CONFIG names; {} without one.

    Raises KafkaError(INVALID_CONFIG) that names the line.
    """
    from odradek.client.properties import read_properties

    named = os.environ.get("ODRADEK_CLIENT_CONFIG")
    path = _config_file[0] if _config_file else Path(named).expanduser() if named else None
    return {} if path is None else read_properties(path)


def run(bootstrap_servers: str, data_dir: Path, work: Callable[[Cluster], Coroutine[Any, Any, T]]) -> T:
    """Run a call of odradek.operations on a connection, and return its result."""

    async def within() -> T:
        async with connected(bootstrap_servers, data_dir) as cluster:
            return await work(cluster)

    return asyncio.run(within())


@contextmanager
def admin(bootstrap_servers: str, data_dir: Path) -> Iterator[Any]:
    """Open an admin client, and close it afterwards."""
    from odradek import Admin

    with Admin(**client_configs(bootstrap_servers, data_dir)) as client:
        yield client


def pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """Return what an option names as name=value, by name. Raises KafkaError(INVALID_CONFIG)."""
    values_by_name = {}
    for text in texts or ():
        name, mark, value = text.partition("=")
        if not mark:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{option} {text!r} must be name=value")
        values_by_name[name.strip()] = value.strip()
    return values_by_name
