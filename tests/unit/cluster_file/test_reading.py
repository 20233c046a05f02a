"""Cluster files as people write them: what is read, and what is said about mistakes, with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.cli.output import as_yaml
from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from odradek.model.quota import QuotaEntity
from odradek.operations.cluster_file.contents import ClusterFile, SchemaEntry, TopicEntry, UserEntry, document
from odradek.operations.cluster_file.reading import read, read_file

WHOLE = """
topics:
  orders:
    partitions: 6
    configs: {cleanup.policy: compact, retention.ms: 86400000, preallocate: True}
  plain:
users:
  ada: {password_env: ADA_PASSWORD}
  ben: {password_file: ben.txt}
acls:
  - {principal: "User:ada", allow: [read, describe], topic: orders}
  - {principal: "User:*", deny: write, topic: audit., pattern: prefixed, host: 192.0.2.1}
  - {principal: "User:ada", allow: create, cluster: true}
quotas:
  - {user: ada, client_id: default, producer_byte_rate: 1000000}
  - {user: ada, client_id: default, request_percentage: 12.5}
schemas:
  orders-value:
    compatibility: FULL
    file: orders.avsc
  lines-value:
    type: JSON
    schema: '{"type": "object"}'
    references: [{name: order, subject: orders-value, version: 2}]
connectors:
  connect:
    files: {connector.class: FileStreamSource, tasks.max: 1, file: /tmp/x}
sql:
  server: http://127.0.0.1:8088
  properties: {auto.offset.reset: earliest}
  statements: |
    CREATE STREAM orders (id VARCHAR KEY) WITH (KAFKA_TOPIC = 'orders', FORMAT = 'JSON');  -- ours
    CREATE TABLE counts AS SELECT id, COUNT(*) FROM orders GROUP BY id;
"""


def test_every_section_is_read(tmp_path: Path) -> None:
    (tmp_path / "orders.avsc").write_text('"string"')
    (tmp_path / "cluster.yaml").write_text(WHOLE)
    found = read_file(tmp_path / "cluster.yaml")
    configs = {"cleanup.policy": "compact", "retention.ms": "86400000", "preallocate": "true"}
    assert found.topics == {"orders": TopicEntry(6, configs), "plain": TopicEntry(None, {})}
    assert found.users == {"ada": UserEntry("ADA_PASSWORD"), "ben": UserEntry("", str(tmp_path / "ben.txt"))}
    write, deny = AclOperation.WRITE, AclPermission.DENY
    denied = AclBinding(ResourceType.TOPIC, "audit.", PatternType.PREFIXED, "User:*", "192.0.2.1", write, deny)
    assert found.acls is not None
    assert len(found.acls) == 4
    assert denied in found.acls
    assert found.quotas == {QuotaEntity("ada", "", None): {"producer_byte_rate": 1_000_000, "request_percentage": 12.5}}
    assert found.schemas is not None
    assert found.schemas["orders-value"] == SchemaEntry('"string"', "AVRO", "FULL")
    assert found.schemas["lines-value"].references[0].version == 2
    assert found.connectors == {
        "connect": {"files": {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "/tmp/x"}}
    }
    assert found.sql is not None
    assert len(found.sql.statements) == 2
    assert found.sql.properties == {"auto.offset.reset": "earliest"}


def test_what_is_written_is_read_back_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "orders.avsc").write_text('{\n  "type": "string"\n}\n')
    before = read(WHOLE.replace("ben: {password_file: ben.txt}", ""), folder=tmp_path)
    after = read(as_yaml(document(before)))
    assert after.sql is not None
    assert before.sql is not None
    assert after.sql.statements == before.sql.statements
    for section in ("topics", "users", "acls", "quotas", "schemas", "connectors"):
        assert getattr(after, section) == getattr(before, section), section


def test_an_empty_file_has_no_section_and_an_empty_section_is_one() -> None:
    assert read("# nothing\n") == ClusterFile()
    assert read("acls: []\ntopics:\n").sections == ("topics", "acls")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("topcs: {}", "f:1: the file has no 'topcs': did you mean topics?"),
        ("topics:\n  a: {partition: 1}", "f:2: topics.a has no 'partition': did you mean partitions?"),
        ("topics:\n  a:\n    partitions: six", "f:3: topics.a.partitions must be a whole number from 1, not 'six'"),
        ("topics:\n  a: {partitions: 0}", "f:2: topics.a.partitions must be a whole number from 1, not '0'"),
        ("topics: [a, b]", "f:1: topics must be a mapping of names to values"),
        ("topics:\n  a:\n    configs: {x: [1]}", "f:3: topics.a.configs.x must be a text or a number, not a sequence"),
        ("topics:\n  a:\n    configs: {x: }", "f:3: topics.a.configs.x is empty"),
        ("topics:\n  a: {}\n  b: {}\n  a: {}", "f:4: topics has 'a' twice"),
        ("users: {ada: {password: x}}", "f:1: users.ada: a cluster file holds no password"),
        ("acls:\n- {allow: read, topic: a}", "f:2: acls[0] needs a principal, such as User:ada"),
        ("acls: [{principal: 'User:a', topic: a}]", "f:1: acls[0] needs one of allow, deny"),
        ("acls: [{principal: 'User:a', allow: reed, topic: a}]", "f:1: acls[0]: unknown operation 'reed'"),
        ("acls: [{principal: a, allow: read, topic: a}]", "f:1: acls[0]: invalid principal 'a'"),
        ("acls: [{principal: 'User:a', allow: read, topic: a, group: b}]", "f:1: acls[0] needs one of topic, group"),
        ("quotas: [{producer_byte_rate: 1}]", "f:1: quotas[0] needs one of user, client_id, ip"),
        ("quotas: [{user: a, producer_byte_rate: fast}]", "f:1: quotas[0].producer_byte_rate must be a number"),
        ("schemas: {s: {type: XML, schema: x}}", "f:1: schemas.s.type must be one of AVRO, JSON, PROTOBUF, not 'XML'"),
        ("schemas:\n  s: {file: nowhere}", "f:2: schemas.s.file: nowhere: No such file or directory"),
        ("schemas: {s: {}}", "f:1: schemas.s needs one of schema, file"),
        ("connectors: {connect: {c: {file: x}}}", "f:1: connectors.connect.c needs a connector.class"),
        ("sql: {statements: SHOW STREAMS;}", "f:1: sql needs a server"),
        ("sql: {server: http://x, statements: SHOW STREAMS;}", "f:1: sql: 'SHOW STREAMS;' defines nothing"),
        ("sql: {server: http://x, statements: CREATE NOTHING;}", "f:1: sql: line 1, column 8"),
        ("topics: {a: *x}", "f:1: not YAML: found undefined alias 'x'"),
        ("topics: {", "f:1: not YAML:"),
        ("topics:\n  a: \x01", "f is not YAML"),
        ("[]", "f:1: the file must be a mapping of names to values"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(KafkaError) as caught:
        read(text, "f")
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert caught.value.message.startswith(problem)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(KafkaError) as caught:
        read("topics:\n  a: {partitions: x}\n  b: {partitions: y}\nacls:\n- {}\nmore: 1\n", "f")
    assert [line.split(":")[1] for line in caught.value.message.splitlines()] == ["6"]
    with pytest.raises(KafkaError) as caught:
        read("topics:\n  a: {partitions: x}\n  b: {partitions: y}\nacls:\n- {}\n", "f")
    assert [line.split(":")[1] for line in caught.value.message.splitlines()] == ["2", "3", "5"]


def test_anchors_are_shared() -> None:
    found = read("topics:\n  a: &same {partitions: 2}\n  b: *same\n")
    assert found.topics == {"a": TopicEntry(2), "b": TopicEntry(2)}
