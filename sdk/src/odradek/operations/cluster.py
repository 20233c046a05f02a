"""A connection to one Odradek: an admin client that stays open, and consumers, producers and the registry on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import unquote, urlsplit

from odradek.client.admin.admin import Admin
from odradek.client.consumer.consumer import Consumer
from odradek.client.producer.producer import Producer
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.schemas import RegistryAdmin
from odradek.operations.storage import StorePlace, StoreView
from odradek.ports.job_runs import JobRuns

T = TypeVar("T")

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_region")


class Cluster:
    """An Odradek, as the clients with one configuration see it. An async context manager.

    Args:
        configs: keyword arguments that Admin, Consumer and Producer share.
        store: where the store itself can be read; None: it cannot, and pages of it say so.
        registry_url: of the schema registry, where the address is a Kafka port, which does not tell it.
        job_runs: the jobs of the deployment; None: Glue's, if the store is a deployment's.

    Attributes:
        admin: the admin client.
        address: where the service is, for people.
    """

    def __init__(
        self,
        configs: Mapping[str, Any],
        store: StorePlace | None = None,
        registry_url: str | None = None,
        *,
        job_runs: JobRuns | None = None,
    ) -> None:
        self._job_runs = job_runs
        self._registry_url = registry_url
        self._configs = dict(configs)
        self.store = store
        self.admin = Admin(**self._configs)
        self.address = str(self._configs.get("bootstrap_servers") or "in this process")
        self._registry: RegistryAdmin | None = None
        self._looking = asyncio.Lock()

    @property
    def configs(self) -> dict[str, Any]:
        """The configurations that the clients share, for parts of Odradek that make clients of their own."""
        return dict(self._configs)

    def open_store(self) -> StoreView:
        """Open the store to read it. Raises KafkaError(INVALID_CONFIG) where there is no access to it."""
        if self.store is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                "how records are stored is read from the store itself: start with the --data-dir of the embedded "
                "service, or with the profile of a deployment (`odradek configure`)",
            )
        return self.store.open()

    def job_runs(self) -> JobRuns | None:
        """Return the jobs of the deployment, None for other services. It blocks for a moment, at the first time.

        Raises KafkaError(INVALID_CONFIG), MissingExtra.
        """
        if self._job_runs is None and self.store is not None and self.store.alarm_prefix:
            from odradek.operations.jobs.runs import open_job_runs

            self._job_runs = open_job_runs(self.store.alarm_prefix, self.store.region)
        return self._job_runs

    @property
    def is_kafka_port(self) -> bool:
        """Return True for a Kafka port, Odradek's or Apache Kafka's: it has no metrics and names no registry."""
        return self.address.startswith("kafka://")

    @property
    def has_metrics(self) -> bool:
        """Return True if the service tells what it did and used: the embedded one does."""
        return self.is_loopback and not self.is_kafka_port

    @property
    def is_loopback(self) -> bool:
        """Return True if the service runs on this machine, where a request costs nothing."""
        return urlsplit(self.address).hostname in _LOOPBACK

    def consumer(self, **configs: Any) -> Consumer:
        """Return a consumer that is not started yet. `configs` are those of a Consumer."""
        return Consumer(**{**self._configs, **configs})

    def producer(self, **configs: Any) -> Producer:
        """Return a producer that is not started yet. `configs` are those of a Producer."""
        return Producer(**{**self._configs, **configs})

    async def apart(self, work: Callable[[Cluster], Coroutine[Any, Any, T]]) -> T:
        """Run a call with a connection and a loop of its own, in a thread.

        For answers that take long to decode, such as the metadata of ten thousand topics: this loop stays free.
        """

        async def within() -> T:
            async with Cluster(self._configs, self.store, self._registry_url) as other:
                return await work(other)

        return await asyncio.to_thread(asyncio.run, within())

    async def registry(self) -> RegistryAdmin:
        """Return the schema registry of the deployment. Its calls block: run them in a thread.

        Raises:
            KafkaError: INVALID_CONFIG if the deployment has no registry, NETWORK_EXCEPTION.
        """
        async with self._looking:
            if self._registry is None and self._registry_url is not None:
                self._registry = _named_registry(self._registry_url)
            if self._registry is None and not self.address.startswith(("http", "kafka")):
                raise KafkaError(ErrorCode.INVALID_CONFIG, "this console has no way to the schema registry")
            if self._registry is None and self.is_kafka_port:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    "a Kafka port does not name its schema registry: give its URL with --registry",
                )
            if self._registry is None:
                keys = {name: self._configs[name] for name in _KEYS if self._configs.get(name)}
                self._registry = await asyncio.to_thread(RegistryAdmin.discover, self.address, **keys)
            return self._registry

    async def registry_or_none(self) -> RegistryAdmin | None:
        """Return the schema registry, or None if it cannot be reached."""
        try:
            return await self.registry()
        except KafkaError:
            return None

    async def start(self) -> Self:
        """Connect. Raises KafkaError whose message names the address."""
        await self.admin.start()
        return self

    async def close(self) -> None:
        """Release connections."""
        await self.admin.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _named_registry(url: str) -> RegistryAdmin:
    """Return the registry of a URL, which may carry a login. Raises KafkaError(INVALID_CONFIG)."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    plain = parts._replace(netloc=host).geturl()
    if parts.username is None:
        return RegistryAdmin(plain)
    return RegistryAdmin(plain, user=unquote(parts.username), password=unquote(parts.password or ""))
