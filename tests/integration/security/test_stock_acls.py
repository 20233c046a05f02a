"""Access rules by stock admin clients through the Kafka port, and what they then let a stock producer do."""

from __future__ import annotations

from collections.abc import Iterator

import odradek
import pytest
from odradek.local import Listener, ThreadedService

from tests.support.kafka import port

PASSWORD = "analytical engine"


@pytest.fixture
def service() -> Iterator[ThreadedService]:
    with port.kafka_service(
        Listener(port=0, sasl=True, plain_without_tls=True), super_users="User:root", acl_cache_ms=0
    ) as service:
        with odradek.Admin(**service.client_config) as admin:
            for name in ("root", "ada"):
                admin.create_user(name, PASSWORD)
            admin.create_topics([odradek.NewTopic(name, 1) for name in ("orders-eu", "secret")])
        yield service


def login(name: str) -> dict[str, str]:
    """Return the login as librdkafka's settings."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": name,
        "sasl.password": PASSWORD,
    }


def outcome(service: ThreadedService, topic: str) -> str:
    """Return the outcome of a record that ada sends."""
    from confluent_kafka import Producer

    said: list[str] = []
    producer = Producer({"bootstrap.servers": service.kafka_bootstrap_servers, "log_level": 0, **login("ada")})
    producer.produce(topic, b"x", on_delivery=lambda error, _: said.append("NONE" if error is None else error.name()))
    port.until(lambda: producer.poll(0.05) or said, what="the record has an outcome")
    return said[0]


def test_confluent_kafka(service: ThreadedService) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    servers = {"bootstrap.servers": service.kafka_bootstrap_servers, "log_level": 0}
    root, ada = (AdminClient({**servers, **login(name)}) for name in ("root", "ada"))
    assert outcome(service, "secret") == "NONE", "there is no rule yet"

    def rule(name: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
        topic, prefixed = ResourceType.TOPIC, ResourcePatternType.PREFIXED
        return AclBinding(topic, name, prefixed, "User:ada", "*", operation, permission)

    allow = rule("orders-", AclOperation.WRITE, AclPermissionType.ALLOW)
    deny = rule("orders-us", AclOperation.ALL, AclPermissionType.DENY)
    for created in root.create_acls([allow, deny]).values():
        created.result(10)
    assert outcome(service, "orders-eu") == "NONE"
    assert outcome(service, "secret") == "TOPIC_AUTHORIZATION_FAILED"

    everything = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert sorted(root.describe_acls(everything).result(10)) == sorted([allow, deny])
    assert ada.describe_acls(everything).result(10) == []  # refused: librdkafka does not pass the error on
    for created in ada.create_acls([rule("secret", AclOperation.WRITE, AclPermissionType.ALLOW)]).values():
        with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
            created.result(10)

    [deleted] = root.delete_acls([everything]).values()
    assert sorted(deleted.result(10)) == sorted([allow, deny])
    assert root.describe_acls(everything).result(10) == []


def test_kafka_python(service: ThreadedService) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePattern,
        ResourcePatternFilter,
        ResourceType,
    )

    admin = KafkaAdminClient(
        bootstrap_servers=service.kafka_bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username="root",
        sasl_plain_password=PASSWORD,
    )
    try:
        pattern = ResourcePattern(ResourceType.GROUP, "billing", ACLResourcePatternType.LITERAL)
        acl = ACL("User:ada", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)
        made = admin.create_acls([acl])
        assert made["succeeded"] == [acl]
        assert made["failed"] == []
        anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
        wanted = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, anything)
        acls, _ = admin.describe_acls(wanted)
        assert acls == [acl]
        admin.delete_acls([wanted])
        assert admin.describe_acls(wanted)[0] == []
    finally:
        admin.close()
