"""The fixtures of the pytest plugin, in a project of a user: another pytest, which finds them by the entry point."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def odradek_options():
    return {"kafka_port": 0}
"""
TESTS = """
import odradek
import pytest

SERVICES = set()


def shipped(config, topic):
    with odradek.Producer(**config) as producer:
        producer.send(topic, b"shipped", b"order-1").result()


def test_an_application(odradek_client_config, odradek_topic, odradek_records, odradek_service):
    topic = odradek_topic("orders", partitions=3)
    shipped(odradek_client_config, topic)
    assert [(each.key, each.value) for each in odradek_records(topic)] == [(b"order-1", b"shipped")]
    assert odradek_service.kafka_bootstrap_servers
    SERVICES.add(odradek_service.bootstrap_servers)


@pytest.mark.parametrize("number", [1, 2])
def test_topics_are_gone_after_a_test(odradek_admin, odradek_topic, odradek_service, number):
    assert "orders" not in odradek_admin.list_topics()
    odradek_topic("orders")
    assert odradek_topic().startswith(f"test_topics_are_gone_after_a_test-{number}")
    SERVICES.add(odradek_service.bootstrap_servers)


def test_a_topic_that_the_application_deleted(odradek_admin, odradek_topic):
    odradek_admin.delete_topics([odradek_topic("orders")])


def test_there_was_one_service():
    assert len(SERVICES) == 1


def test_time(odradek_time):
    with odradek.Admin(**odradek_time.client_config) as admin:
        admin.create_topics([odradek.NewTopic("week", 1, configs={"retention.ms": str(7 * 86_400_000)})])
    shipped(odradek_time.client_config, "week")
    before = odradek_time.now_ms()
    odradek_time.advance(days=6)
    assert len(odradek_time.records("week")) == 1
    odradek_time.advance(days=2)
    assert odradek_time.records("week") == []
    assert odradek_time.now_ms() - before >= 8 * 86_400_000
"""
LIGHT = """
import sys

def test_nothing_of_odradek_is_imported():
    loaded = {name for name in sys.modules if name.split(".")[0] == "odradek"}
    assert loaded == {"odradek", "odradek.testing", "odradek.testing.pytest_plugin"}
    assert "aiohttp" not in sys.modules
"""


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ODRADEK_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *options]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def test_a_project_gets_the_fixtures_by_installing(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_application.py").write_text(TESTS)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "6 passed" in done.stdout


def test_a_project_that_uses_none_of_them_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_light.py").write_text(LIGHT)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_fixtures_are_listed_with_what_they_are(tmp_path: Path) -> None:
    listed = run_pytest(tmp_path, "--fixtures").stdout
    for name in ("odradek_service", "odradek_topic", "odradek_records", "odradek_time", "odradek_client_config"):
        assert f"{name} " in listed or f"{name}\n" in listed
