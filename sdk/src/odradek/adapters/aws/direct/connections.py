"""HTTP/1.1 connections to one host, kept open between requests; one request makes one attempt.

A kept connection that the other side has closed meanwhile is replaced before anything is sent on it. What fails before
a connection is there was surely not sent; what fails afterwards may have been received. botocore's exceptions tell the
two apart, so that adapters need no second table of errors (calls.py).

Neither urllib3 nor http.client: importing them takes 90 and 10 ms of CPU beside asyncio, and see exchange.py.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from urllib.parse import urlsplit

from botocore.exceptions import ConnectionClosedError, ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError

from odradek.adapters.aws.direct.exchange import Answer, Exchanges, Malformed
from odradek.adapters.aws.direct.trust import amazon_tls, full_tls

_PORTS = {"https": 443, "http": 80}


class Connections:
    """Connections to the host of a URL. May be used by any number of threads, each of which has a connection meanwhile.

    Args:
        url: scheme, host and port; what follows is ignored.
        connect_timeout_s, read_timeout_s: of a connection, and of each wait for bytes of a response.
    """

    def __init__(self, url: str, *, connect_timeout_s: float, read_timeout_s: float) -> None:
        parts = urlsplit(url)
        self.url = f"{parts.scheme}://{parts.netloc}"
        self.host_header = parts.netloc
        self.is_encrypted = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        self._connect_timeout_s = connect_timeout_s
        self._read_timeout_s = read_timeout_s
        self._tls = amazon_tls() if self.is_encrypted else None  # read while Lambda initializes the function
        self._idle: deque[Exchanges] = deque()

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send a request and read its response.

        Raises EndpointConnectionError and ConnectTimeoutError if nothing was sent; ReadTimeoutError and
        ConnectionClosedError if it is unknown what became of the request.
        """
        connection = self._kept() or self._opened()
        try:
            response, is_kept = connection.request(method, path, headers, body)
        except TimeoutError as error:
            connection.close()
            raise ReadTimeoutError(endpoint_url=self.url) from error
        except (OSError, Malformed) as error:
            connection.close()
            raise ConnectionClosedError(endpoint_url=self.url) from error
        except BaseException:
            connection.close()
            raise
        if is_kept:
            self._idle.append(connection)
        else:
            connection.close()
        return response

    def close(self) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            self._idle.pop().close()

    def _kept(self) -> Exchanges | None:
        """Return the connection that was used last, if the other side has not closed it."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if not _is_readable(connection.sock):
                return connection
            connection.close()

    def _opened(self) -> Exchanges:
        try:
            try:
                connection = self._connected()
            except ssl.SSLCertVerificationError:
                self._tls = full_tls()
                connection = self._connected()
        except TimeoutError as error:
            raise ConnectTimeoutError(endpoint_url=self.url) from error
        except OSError as error:
            raise EndpointConnectionError(endpoint_url=self.url) from error
        connection.sock.settimeout(self._read_timeout_s)
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connection

    def _connected(self) -> Exchanges:
        sock = socket.create_connection((self._host, self._port), self._connect_timeout_s)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_hostname=self._host)
        except BaseException:
            sock.close()
            raise
        return Exchanges(sock)


def _is_readable(sock: socket.socket) -> bool:
    """Return True if bytes or an end wait where none are due: the connection is of no use."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
