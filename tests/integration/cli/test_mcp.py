"""`odradek mcp` as an agent's program starts it: the official client over standard input and output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import odradek
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from odradek.errors import KafkaError
from odradek.gateway import Listener
from odradek.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from odradek.operations.agents import READING, RECORDS_MAX, VALUE_CHARACTERS_MAX, WRITING, AgentTools
from odradek.operations.cluster import Cluster
from odradek.operations.storage import StorePlace


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with odradek.local(tmp_path_factory.mktemp("mcp") / "data") as service:  # type: ignore[operator]
        with odradek.Admin(**service.client_config) as admin, odradek.Producer(**service.client_config) as producer:
            admin.create_topics([odradek.NewTopic("orders", 2, configs={"retention.ms": "-1"})])
            for number in range(300):
                value = json.dumps({"id": number, "country": "CH" if number % 100 == 7 else "DE"}).encode()
                producer.send("orders", value, str(number).encode())
            producer.flush()
        with odradek.Consumer(group_id="billing", **service.client_config) as consumer:
            consumer.subscribe(["orders"])
            consumer.poll(timeout_ms=5_000)
            consumer.commit()
        yield service


@asynccontextmanager
async def agent(folder: Path, *options: str) -> AsyncIterator[ClientSession]:
    """Start the command as a program of an agent does, and connect to it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ODRADEK_"))}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "odradek.cli", "mcp", "--data-dir", str(folder), *options], env=environment
    )
    async with stdio_client(command) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


async def called(session: ClientSession, tool: str, **arguments: Any) -> Any:
    result = await session.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def test_an_agent_reads_the_log_in_one_line(service: Any) -> None:
    async with agent(service.data_dir) as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert set(tools) == set(READING), "it only reads unless it is told otherwise"
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.values())
        assert (await called(session, "list_topics"))["topics"] == [{"topic": "orders", "partitions": 2}]
        described = await called(session, "describe_topic", topic="orders")
        assert (described["records"], described["configs"]) == (300, {"retention.ms": "-1"})
        assert [consumer["group"] for consumer in described["consumers"]] == ["billing"]
        [group] = (await called(session, "list_groups"))["groups"]
        assert (group["group"], group["topics"]) == ("billing", ["orders"])
        newest = await called(session, "read_records", topic="orders", count=5)
        assert len(newest["records"]) == 5
        matches = await called(session, "search_records", topic="orders", where='value.country == "CH"')
        assert sorted(json.loads(record["value"])["id"] for record in matches["records"]) == [7, 107, 207]
        rows = await called(session, "query_sql", sql="SELECT country, count(*) AS n FROM orders GROUP BY country")
        assert sorted((row["country"], row["n"]) for row in rows["rows"]) == [("CH", 3), ("DE", 297)]
        assert (await called(session, "list_schemas"))["total"] == 0
        assert (await called(session, "health"))["warnings"] == []
        refused = await session.call_tool("describe_topic", {"topic": "nowhere"})
        assert refused.is_error
        assert "UNKNOWN_TOPIC_OR_PARTITION: topic 'nowhere' does not exist" in str(refused.content)
        unknown = await session.call_tool("create_topic", {"topic": "new"})
        assert unknown.is_error


async def test_an_agent_writes_if_it_is_allowed(service: Any) -> None:
    async with agent(service.data_dir, "--allow-writes") as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert set(tools) == {*READING, *WRITING}
        assert tools["produce_record"].annotations.read_only_hint is False  # type: ignore[union-attr]
        assert await called(session, "create_topic", topic="notes", partitions=1) == {"created": "notes"}
        written = await called(session, "produce_record", topic="notes", value="hello", key="k", headers={"h": "1"})
        assert (written["partition"], written["offset"]) == (0, 0)
        await called(session, "produce_record", topic="notes", value="x" * 3 * VALUE_CHARACTERS_MAX)
        long, hello = (await called(session, "read_records", topic="notes"))["records"]
        assert (hello["key"], hello["value"], hello["headers"]) == ("k", "hello", {"h": "1"})
        assert long["value"].endswith(f"... ({3 * VALUE_CHARACTERS_MAX:,} characters)")


async def test_a_result_is_bounded_and_says_so(service: Any) -> None:
    async with Cluster(service.client_config, StorePlace.of_folder(service.data_dir)) as cluster:
        tools = AgentTools(cluster)
        assert len((await tools.read_records("orders", count=9_999))["records"]) == RECORDS_MAX
        rows = await tools.query_sql("SELECT * FROM orders")
        assert (len(rows["rows"]), rows["total_rows"]) == (RECORDS_MAX, 300)
        oldest = await tools.read_records("orders", count=1, start="earliest", partitions=[0])
        assert oldest["records"][0]["offset"] == 0
        with pytest.raises(KafkaError, match="start must be earliest"):
            await tools.read_records("orders", start="yesterday")


async def test_sql_gives_no_row_of_a_topic_that_the_caller_may_not_read(tmp_path: Path) -> None:
    """The store knows no ACLs; the service does."""
    listener = Listener(port=0, sasl=True, plain_without_tls=True)
    with odradek.local(tmp_path / "data", kafka=listener) as service:  # type: ignore[operator]
        with odradek.Admin(**service.client_config) as admin, odradek.Producer(**service.client_config) as producer:
            admin.create_topics(["open", "secret"])
            for topic in ("open", "secret"):
                producer.send(topic, b"x").result()
            admin.create_user("ben", "a password")
            topics = ((AclOperation.DESCRIBE, "*"), (AclOperation.WRITE, "*"), (AclOperation.READ, "open"))
            admin.create_acls(
                [
                    AclBinding(
                        ResourceType.TOPIC, topic, PatternType.LITERAL, "User:ben", "*", operation, AclPermission.ALLOW
                    )
                    for operation, topic in topics
                ]
            )
        configs = {
            "bootstrap_servers": f"kafka://{service.kafka_bootstrap_servers}",
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_username": "ben",
            "sasl_password": "a password",
        }
        async with Cluster(configs, StorePlace.of_folder(service.data_dir)) as cluster:
            tools = AgentTools(cluster)
            assert (await tools.query_sql("SELECT value FROM open"))["total_rows"] == 1
            with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
                await tools.query_sql("SELECT value FROM secret")
