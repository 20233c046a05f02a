"""The two brokers, configured so that the same question is fair to both.

one node with id 0, one cluster id, no creation of topics by a question for their metadata
a listener without login, whose User:ANONYMOUS is a super user; one for PLAIN and SCRAM, with the users of probe.py
ACLs are enforced, and what no ACL covers is denied
one partition for each topic of a coordinator, no wait before a first rebalance
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import odradek
from odradek.gateway import Gateway
from odradek.local import Listener
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng

from bench.peers.kafka_broker import kafka_broker
from bench.peers.maven import APACHE_KAFKA, maven_jars
from tests.peers.connection import Connection
from tests.peers.probe import ADMIN, PASSWORD, RETRIABLE, USER, until
from tests.peers.schemas import Schemas

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
_SUPER_USERS = f"User:ANONYMOUS;User:{ADMIN}"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_LOGIN = "listener.name.sasl_plaintext"

KAFKA_PROPERTIES = (
    "node.id=0",
    "auto.create.topics.enable=false",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "share.coordinator.state.topic.num.partitions=1",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    f"super.users={_SUPER_USERS}",
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    f'{_LOGIN}.plain.sasl.jaas.config={_PLAIN} user_{ADMIN}="{PASSWORD}" user_{USER}="{PASSWORD}";',
    f"{_LOGIN}.scram-sha-256.sasl.jaas.config={_SCRAM}",
    f"{_LOGIN}.scram-sha-512.sasl.jaas.config={_SCRAM}",
)
"""What Apache Kafka has here beside its defaults and what a single node needs (bench/peers/kafka_broker.py)."""

SETTINGS = Settings(
    cluster_id=CLUSTER_ID,
    super_users=_SUPER_USERS,
    allow_everyone_if_no_acl_found="false",
    group_initial_rebalance_delay_ms=0,
    catalog_cache_ms=0,
    acl_cache_ms=0,
    poll_interval_ms=10,
    poll_interval_ms_max=40,
    maintenance_interval_ms=2000,
)
"""What the Kafka port has beside its defaults."""


@dataclass(frozen=True)
class Addresses:
    """Addresses of a broker: without login, and with."""

    name: str
    servers: str
    sasl_servers: str


def kafka_schemas(version: str = "") -> Schemas:
    """The schemas of a version of Kafka; of the newest by default. Raises NoJars."""
    jars = maven_jars(APACHE_KAFKA, **({"kafka": version} if version else {}))
    return Schemas.from_jar(next(jar for jar in jars if jar.name.startswith("kafka-clients-")))


@contextmanager
def apache_kafka(schemas: Schemas, version: str = "") -> Iterator[Addresses]:
    """An Apache Kafka with an empty log. Raises NoBroker."""
    with kafka_broker(*KAFKA_PROPERTIES, version=version, sasl=True) as broker:
        _create_users(broker.servers, schemas)
        yield Addresses(f"Apache Kafka {version}".rstrip(), broker.servers, broker.sasl_servers)


@contextmanager
def kafka_port(schemas: Schemas) -> Iterator[Addresses]:
    """An embedded service with two Kafka ports over one empty store, in threads of this process."""
    with odradek.local(kafka=Listener(port=0), settings=SETTINGS, synchronous="NORMAL") as service:
        login = Listener(port=0, sasl=True, plain_without_tls=True)

        async def start() -> Gateway:
            return await Gateway(service.service.engine, login, clock=SystemClock(), rng=SystemRng()).start()

        gateway = asyncio.run_coroutine_threadsafe(start(), service.loop).result()
        try:
            _create_users(service.kafka_bootstrap_servers, schemas)
            yield Addresses("Odradek", service.kafka_bootstrap_servers, gateway.bootstrap_servers)
        finally:
            asyncio.run_coroutine_threadsafe(gateway.stop(0), service.loop).result()


def advertised(servers: str, schemas: Schemas) -> dict[str, tuple[int, int]]:
    """Lowest and highest version of each API that a broker advertises."""
    with Connection(servers, schemas) as connection:
        keys = connection.call("ApiVersions", 3, ClientSoftwareName="probe", ClientSoftwareVersion="1")["ApiKeys"]
    return {
        schemas.names[key["ApiKey"]]: (key["MinVersion"], key["MaxVersion"])
        for key in keys
        if key["ApiKey"] in schemas.names
    }


def create_coordinators(servers: str, schemas: Schemas) -> None:
    """Wait until a broker coordinates groups, transactions and share groups: Apache Kafka creates topics for that."""
    keys = {0: "first", 1: "first", 2: f"first:{'A' * 22}:0"}
    with Connection(servers, schemas) as connection:

        def is_there(key_type: int) -> bool:
            response = connection.call("FindCoordinator", 6, KeyType=key_type, CoordinatorKeys=[keys[key_type]])
            return response["Coordinators"][0]["ErrorCode"] not in RETRIABLE

        def answers() -> bool:
            group = connection.call("DescribeGroups", 5, Groups=["first"])["Groups"][0]["ErrorCode"]
            transaction = connection.call("DescribeTransactions", 0, TransactionalIds=["first"])["TransactionStates"][0]
            return not {group, transaction["ErrorCode"]} & set(RETRIABLE)

        for key_type in keys:
            until(partial(is_there, key_type))
        until(answers)


def _create_users(servers: str, schemas: Schemas) -> None:
    iterations, salt = 4096, b"salt of the probes"
    with Connection(servers, schemas) as connection:
        for mechanism, algorithm in ((1, "sha256"), (2, "sha512")):
            salted = hashlib.pbkdf2_hmac(algorithm, PASSWORD.encode(), salt, iterations)
            row = {"Mechanism": mechanism, "Iterations": iterations, "Salt": salt, "SaltedPassword": salted}
            rows = [{"Name": user, **row} for user in (ADMIN, USER)]
            response = connection.call("AlterUserScramCredentials", 0, Deletions=[], Upsertions=rows)
            assert not any(result["ErrorCode"] for result in response["Results"]), response

        def are_there() -> bool:
            response = connection.call("DescribeUserScramCredentials", 0, Users=[{"Name": ADMIN}, {"Name": USER}])
            return all(len(user_result["CredentialInfos"]) == 2 for user_result in response["Results"])

        until(are_there)
