"""Access to the REST API, and its addresses: basic authentication, TLS.

The users are in a file with a line `user=password` each, as of Kafka's PropertyFileLoginModule; a change of the file
counts from the next request. An address that others can reach needs users or clients' certificates, because a request
may make a worker read files, run connectors and call services with its rights.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from odradek.connect.errors import ConfigError
from odradek.connect.settings import WorkerSettings
from odradek.http.listening import is_loopback

_BASIC_AUTH = "BasicAuthSecurityRestExtension"
_log = logging.getLogger("odradek.connect.rest")


def address_of(listener: str) -> SplitResult:
    """Return the parts of a listener's address. Raises ConfigError."""
    parts = urlsplit(listener)
    try:
        has_port = parts.port is not None
    except ValueError:
        has_port = False
    if parts.scheme not in ("http", "https") or not has_port:
        raise ConfigError({"listeners": [f"listeners: {listener!r} must be such as http://127.0.0.1:8083"]})
    return parts


class Users:
    """The users of a file.

    Raises:
        ConfigError: if it cannot be read.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._stamp: tuple[int, int] = (-1, -1)
        self._users: Mapping[str, bytes] = {}
        self._read()

    def _read(self) -> None:
        try:
            file_status = self._path.stat()
            stamp = file_status.st_mtime_ns, file_status.st_size
            if stamp == self._stamp:
                return
            lines = self._path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            message = f"rest.basic.auth.users.file: {self._path} cannot be read: {error}"
            raise ConfigError({"rest.basic.auth.users.file": [message]}) from None
        pairs = (line.partition("=" if "=" in line else ":") for line in lines if line.strip() and line[:1] not in "#!")
        self._users = {user.strip(): _digest(password.strip()) for user, _, password in pairs}
        self._stamp = stamp

    async def check(self, user: str, password: str) -> bool:
        """Return True for the password of a user, in the same time for unknown users."""
        try:
            self._read()
        except ConfigError as error:  # while it is replaced: those who were known before still are
            _log.warning("%s", error)
        digest = self._users.get(user, b"")
        is_right = hmac.compare_digest(_digest(password), digest or _digest(""))
        return bool(digest) and is_right


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()  # so that comparing takes the same time for all of them


def users_of(settings: WorkerSettings) -> Users | None:
    """Return the users of the REST API, None if nobody has to log in. Raises ConfigError."""
    path = settings["rest.basic.auth.users.file"]
    extensions = [setting.rpartition(".")[2] for setting in settings["rest.extension.classes"]]
    unknown = [extension for extension in extensions if extension != _BASIC_AUTH]
    if unknown:
        message = f"rest.extension.classes: unknown extension {unknown[0]!r}: {_BASIC_AUTH} is the only one"
        raise ConfigError({"rest.extension.classes": [message]})
    if path is None and extensions:
        message = f"{_BASIC_AUTH} needs rest.basic.auth.users.file"
        raise ConfigError({"rest.basic.auth.users.file": [message]})
    return None if path is None else Users(path)


def tls_of(settings: WorkerSettings) -> ssl.SSLContext:
    """Return what https:// needs. Raises ConfigError."""
    location = settings["ssl.keystore.location"]
    if not location:
        raise ConfigError({"ssl.keystore.location": ["https:// needs ssl.keystore.location: a PEM file"]})
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(location, password=settings["ssl.key.password"])
        wanted = settings["ssl.client.auth"]
        if wanted != "none":
            context.verify_mode = ssl.CERT_REQUIRED if wanted == "required" else ssl.CERT_OPTIONAL
            context.load_verify_locations(settings["ssl.truststore.location"])
    except (OSError, TypeError, ssl.SSLError) as error:
        raise ConfigError(
            {"ssl.keystore.location": [f"the files of ssl.* cannot be used, they must be PEM: {error}"]}
        ) from None
    return context


def check_access(settings: WorkerSettings, parts: SplitResult, users: Any) -> None:
    """Refuse an address that everybody can reach and nobody has to log in at. Raises ConfigError."""
    is_certified = parts.scheme == "https" and settings["ssl.client.auth"] == "required"
    if users is None and not is_certified and not is_loopback(parts.hostname or ""):
        message = (
            f"listeners: {parts.geturl()} can be reached by others: set rest.basic.auth.users.file, or "
            "ssl.client.auth=required with https://, or listen on 127.0.0.1"
        )
        raise ConfigError({"listeners": [message]})
