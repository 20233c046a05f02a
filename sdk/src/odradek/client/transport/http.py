"""Frames over HTTPS: each call is one POST to the URL of the function that owns the API.

    GET  <bootstrap>/.well-known/odradek   once: {"cluster_id", "region", "functions": {"produce": url, ...}}
    POST <function url>                    application/octet-stream, a request frame -> a response frame

The meaning of an HTTP failure:

    answer                        code                                            may have been applied
    JSON {"error", "message"}     the named code                                  as the code says
    401, 403                      SASL_AUTHENTICATION_FAILED / CLUSTER_AUTH...    no
    413                           RECORD_LIST_TOO_LARGE                           no
    429                           THROTTLING_QUOTA_EXCEEDED                       no
    other 4xx                     INVALID_REQUEST                                 no
    5xx                           NETWORK_EXCEPTION (504: REQUEST_TIMED_OUT)      yes
    no connection                 BROKER_NOT_AVAILABLE, retried                   no
    broken or no answer           NETWORK_EXCEPTION / REQUEST_TIMED_OUT           yes
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from odradek.client.transport.base import FrameTransport, RequestFailed
from odradek.client.transport.signer import Signer, region_of
from odradek.errors import ErrorCode, KafkaError
from odradek.protocol.api import FunctionName

DISCOVERY_PATH = "/.well-known/odradek"
_FRAME_TYPE = "application/octet-stream"
_DNS_CACHE_S = 300
_MESSAGE_CHARACTERS_MAX = 500


@dataclass(frozen=True, slots=True)
class Cluster:
    """The contents of the discovery document."""

    cluster_id: str
    region: str | None
    functions: Mapping[FunctionName, str]
    others: Mapping[str, str]  # functions that own none of Kafka's APIs, by name


class HttpTransport(FrameTransport):
    """Calls function URLs.

    Args:
        url: of the coordinator function, or of the local service.
        aws_access_key_id, aws_secret_access_key, aws_session_token: None takes botocore's default chain.
        region: to sign for; None takes that of the host name, the document, or the AWS configuration.
    """

    def __init__(
        self,
        url: str,
        *,
        aws_access_key_id: str | None = None,
        aws_secret_access_key: str | None = None,
        aws_session_token: str | None = None,
        region: str | None = None,
    ) -> None:
        super().__init__()
        self._url = url.rstrip("/")
        self._keys = (aws_access_key_id, aws_secret_access_key, aws_session_token)
        self._region = region
        self._signer: Signer | None = None
        self._session: aiohttp.ClientSession | None = None
        self._cluster: Cluster | None = None
        self._connecting = asyncio.Lock()
        self.inject: Callable[[dict[str, str]], None] | None = None  # adds headers of a trace (odradek.tracing)

    async def connect(self, timeout_s: float) -> None:
        """Read the discovery document once. Implements Transport.connect."""
        async with self._connecting:
            if self._cluster is not None:
                return
            if self._signer is None:
                # The default chain may ask the instance's metadata service.
                self._signer = await asyncio.to_thread(Signer, *self._keys)
            if self._session is None:
                self._session = aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=_DNS_CACHE_S), auto_decompress=True
                )
            url = self._url + DISCOVERY_PATH
            status, body = await self._request("GET", url, b"", timeout_s)
            if status != 200:
                raise http_failure(status, body, url)
            self._cluster = parse_discovery(body, self._url)

    async def cluster_id(self, timeout_s: float) -> str:
        """Return the id of the cluster."""
        await self.connect(timeout_s)
        assert self._cluster is not None
        return self._cluster.cluster_id

    async def exchange(self, function: FunctionName, frame: bytes, timeout_s: float) -> bytes:
        if self._cluster is None:
            await self.connect(timeout_s)
        assert self._cluster is not None
        url = self._cluster.functions[function]
        status, body = await self._request("POST", url, frame, timeout_s)
        if status != 200:
            raise http_failure(status, body, url, signed=self._signer is not None and self._signer.has_credentials)
        return body

    async def call_function(self, name: str, method: str, path: str, body: bytes, timeout_s: float) -> dict[str, Any]:
        """Call a function that owns none of Kafka's APIs, such as `triggers`; return its JSON document.

        Raises RequestFailed: INVALID_CONFIG if the deployment has no such function.
        """
        if self._cluster is None:
            await self.connect(timeout_s)
        assert self._cluster is not None
        if name not in self._cluster.others:
            raise RequestFailed(
                ErrorCode.INVALID_CONFIG,
                f"{self._url} has no function {name!r}: upgrade the service",
                may_have_applied=False,
            )
        url = self._cluster.others[name].rstrip("/") + path
        status, response = await self._request(method, url, body, timeout_s, content_type="application/json")
        if status != 200:
            is_signed = self._signer is not None and self._signer.has_credentials
            raise http_failure(status, response, url, signed=is_signed, names_url=False)
        document: dict[str, Any] = json.loads(response)
        return document

    async def _request(
        self, method: str, url: str, body: bytes, timeout_s: float, *, content_type: str = _FRAME_TYPE
    ) -> tuple[int, bytes]:
        assert self._signer is not None
        assert self._session is not None
        plain = {"content-type": content_type} if body else {}
        if self.inject is not None:
            self.inject(plain)
        headers = self._signer.headers(method, url, body, plain, self._region_for(url))
        try:
            async with self._session.request(
                method,
                url,
                data=body or None,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
                allow_redirects=False,
            ) as response:
                return response.status, await response.read()
        except aiohttp.ClientConnectorError as error:
            raise RequestFailed(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"cannot connect to {url}: {error.os_error.strerror or error.os_error}",
                may_have_applied=False,
                retryable=True,
            ) from None
        except TimeoutError:
            raise RequestFailed(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{url} did not answer within {timeout_s * 1000:.0f} ms",
                may_have_applied=True,
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise RequestFailed(
                ErrorCode.NETWORK_EXCEPTION,
                f"the connection to {url} broke: {error or type(error).__name__}",
                may_have_applied=True,
            ) from None

    def _region_for(self, url: str) -> str:
        assert self._signer is not None
        discovered = self._cluster.region if self._cluster is not None else None
        return self._region or region_of(urlsplit(url).hostname or "") or discovered or self._signer.default_region

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            self._cluster = None
            await session.close()


def parse_discovery(body: bytes, url: str) -> Cluster:
    """Parse a discovery document. Raises KafkaError(INVALID_CONFIG) that names the address."""
    try:
        document = json.loads(body)
        functions = {name: _absolute(document["functions"][name.value], url) for name in FunctionName}
        cluster_id, region = document["cluster_id"], document.get("region")
        others = {
            name: _absolute(document[name], url) for name in ("registry", "triggers", "tables") if name in document
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{url}{DISCOVERY_PATH} is not an Odradek coordinator: set bootstrap_servers to the coordinator's URL",
        ) from None
    return Cluster(str(cluster_id), str(region) if region else None, functions, others)


def _absolute(address: Any, url: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"not a URL: {address!r}")
    return str(address) if parts.path else f"{address}/"


def http_failure(status: int, body: bytes, url: str, *, signed: bool = True, names_url: bool = True) -> RequestFailed:
    """Return the error of an HTTP status other than 200, by the table above.

    Args:
        names_url: False: a refusal that the function put into words is given in these words alone.
    """
    name, message = _error_document(body)
    if names_url or name is None or not message or status >= 500:
        message = f"{url} answered HTTP {status}" + (f": {message}" if message else "")
    if name is not None:
        code = ErrorCode[name]
        return RequestFailed(
            code,
            message,
            may_have_applied=status >= 500 and not code.has_no_side_effects,
            retryable=True if status in {429, 502, 503, 504} else None,
        )
    if status == 401:
        return RequestFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, message, may_have_applied=False)
    if status == 403:
        if urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1"):
            message += "; for an embedded service of another process: **odradek.local.client_config(DATA_DIR), or "
            message += '`eval "$(odradek env --data-dir DATA_DIR)"`'
        if not signed:
            message += " (no AWS credentials were found to sign with: set them in the environment or the configuration)"
            return RequestFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, message, may_have_applied=False)
        return RequestFailed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message, may_have_applied=False)
    if status == 404:
        message += "; bootstrap_servers must be the URL of the coordinator function"
        return RequestFailed(ErrorCode.INVALID_CONFIG, message, may_have_applied=False)
    if status == 413:
        return RequestFailed(ErrorCode.RECORD_LIST_TOO_LARGE, message, may_have_applied=False)
    if status == 429:
        return RequestFailed(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message, may_have_applied=False)
    if status < 500:
        return RequestFailed(ErrorCode.INVALID_REQUEST, message, may_have_applied=False)
    code = ErrorCode.REQUEST_TIMED_OUT if status == 504 else ErrorCode.NETWORK_EXCEPTION
    return RequestFailed(code, message, may_have_applied=True)


def _error_document(body: bytes) -> tuple[str | None, str]:
    """Return the Kafka error name of an error response (None if it is not Odradek's) and its message."""
    try:
        document = json.loads(body)
    except ValueError:
        return None, ""
    if not isinstance(document, dict):
        return None, ""
    name = document.get("error")
    message = document.get("message") or document.get("Message") or ""
    is_known = isinstance(name, str) and name in ErrorCode.__members__
    return (name if is_known else None), str(message)[:_MESSAGE_CHARACTERS_MAX]
