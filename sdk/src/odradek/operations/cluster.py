"""A connection to one Odradek: an admin client that stays open, and consumers, producers and the registry on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from odradek.client.admin.admin import Admin
from odradek.client.consumer.consumer import Consumer
from odradek.client.producer.producer import Producer
from odradek.errors import KafkaError
from odradek.operations.schemas import RegistryAdmin

T = TypeVar("T")

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_region")


class Cluster:
    """An Odradek, as the clients with one configuration see it. An async context manager.

    Args:
        configs: keyword arguments that Admin, Consumer and Producer share.

    Attributes:
        admin: the admin client.
        address: where the service is, for people.
    """

    def __init__(self, configs: Mapping[str, Any]) -> None:
        self._configs = dict(configs)
        self.admin = Admin(**self._configs)
        self.address = str(self._configs.get("bootstrap_servers") or "in this process")
        self._registry: RegistryAdmin | None = None
        self._looking = asyncio.Lock()

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
            async with Cluster(self._configs) as other:
                return await work(other)

        return await asyncio.to_thread(asyncio.run, within())

    async def registry(self) -> RegistryAdmin:
        """Return the schema registry of the deployment. Its calls block: run them in a thread.

        Raises:
            KafkaError: INVALID_CONFIG if the deployment has no registry, NETWORK_EXCEPTION.
        """
        async with self._looking:
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
