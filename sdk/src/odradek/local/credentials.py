"""The key pair that signs requests to one embedded service: one per data directory, readable only by its owner.

<data dir>/credentials.json   {"access_key_id": "...", "secret_access_key": "...", "region": "us-east-1"}   mode 0600
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from odradek.errors import ErrorCode, KafkaError
from odradek.local.sigv4 import SigningKey

FILE_NAME = "credentials.json"
KEY_ID_PREFIX = "ODRADEKLOCAL"  # no AWS key begins like this
DEFAULT_REGION = "us-east-1"  # the default of AWS tools, so that a client without a region can sign


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key like AWS's, with an id that does not look like one of AWS's."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    region: str = DEFAULT_REGION

    def signing_key(self) -> SigningKey:
        """The key that verifies requests. Any region is accepted, because there is only this service."""
        return SigningKey(self.access_key_id, self.secret_access_key)

    def as_environment(self) -> dict[str, str]:
        """Return the environment variables of a client."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_REGION": self.region,
        }


def load_or_create_credentials(data_dir: Path) -> Credentials:
    """Read the directory's credentials, or create them.

    Raises KafkaError(INVALID_CONFIG) for a broken file, or a directory that cannot be written (full, read-only).
    """
    path = data_dir / FILE_NAME
    if not path.exists():
        try:
            _create(path)
        except OSError as error:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"cannot write {path}: {error.strerror}; free some space or choose another directory",
            ) from None
    return load_credentials(data_dir)


def load_credentials(data_dir: Path) -> Credentials:
    """Read the directory's credentials. Raises KafkaError(INVALID_CONFIG) that says what to do."""
    path = data_dir / FILE_NAME
    try:
        credentials = Credentials(**json.loads(path.read_text()))
    except FileNotFoundError:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{path} does not exist: is {data_dir} the data directory of an embedded service?"
        ) from None
    except (ValueError, TypeError, OSError) as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{path} cannot be read ({error}): delete it and start the service again"
        ) from None
    return credentials


def _create(path: Path) -> None:
    """Write a new file under another name and rename it, so that a crash leaves a complete file or none."""
    credentials = Credentials(
        access_key_id=f"{KEY_ID_PREFIX}{secrets.token_hex(4).upper()}", secret_access_key=secrets.token_urlsafe(30)
    )
    draft = path.with_suffix(".tmp")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(credentials), file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
