"""The address of a running embedded service, kept in its data directory, where other processes find it.

<data dir>/address.json   {"bootstrap_servers": "http://127.0.0.1:9292"}

The file is written when the service listens and removed when it stops; after a kill it stays until the next start.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from odradek.errors import ErrorCode, KafkaError
from odradek.local.credentials import load_credentials

_log = logging.getLogger("odradek.local")
FILE_NAME = "address.json"
DEFAULT_DATA_DIR = Path(".odradek")


def save_address(data_dir: Path, bootstrap_servers: str) -> None:
    """Write the address of the service that serves a data directory, for its owner's eyes.

    If it cannot be written, as on a full disk, the log says so, and the user has to pass the address to other
    processes.
    """
    draft = data_dir / f"{FILE_NAME}.tmp"
    try:
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump({"bootstrap_servers": bootstrap_servers}, file)
        draft.replace(data_dir / FILE_NAME)
    except OSError as error:
        _log.warning(
            "cannot write %s: %s; pass the address to other processes yourself", data_dir / FILE_NAME, error.strerror
        )


def remove_address(data_dir: Path) -> None:
    """Remove the address of a service that stops."""
    (data_dir / FILE_NAME).unlink(missing_ok=True)


def load_address(data_dir: Path) -> str | None:
    """Return the address of the service of a data directory; None if none runs there, or the file is damaged."""
    try:
        document = json.loads((data_dir / FILE_NAME).read_text())
    except (OSError, ValueError):
        return None
    address = document.get("bootstrap_servers") if isinstance(document, dict) else None
    return address if isinstance(address, str) else None


def client_config(data_dir: Path | str = DEFAULT_DATA_DIR) -> dict[str, str]:
    """Return keyword arguments for clients of the service that another process runs on a data directory.

        odradek.Producer(**odradek.local.client_config("data"))

    Args:
        data_dir: folder of the service; by default the one that `odradek local` uses in the current folder.

    Raises:
        KafkaError(INVALID_CONFIG): no service runs on the folder.
    """
    folder = Path(data_dir)
    address = load_address(folder)
    if address is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"no embedded service runs on {folder}: start one with `odradek local --data-dir {folder}`",
        )
    credentials = load_credentials(folder)
    return {
        "bootstrap_servers": address,
        "aws_access_key_id": credentials.access_key_id,
        "aws_secret_access_key": credentials.secret_access_key,
        "aws_region": credentials.region,
    }
