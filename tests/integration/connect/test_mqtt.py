"""The MQTT source: messages are acknowledged when their records are stored, and kept for absent tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from odradek.connect.connectors.mqtt import MqttSourceConnector
from odradek.connect.errors import ConnectError
from odradek.system import SystemClock
from odradek.testing.connect import SourceDriver
from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from tests.support.connect.mqtt_broker import Broker, find_mosquitto, mosquitto
from tests.support.connect.running import RunningCluster
from tests.support.kafka.port import until


def configs_of(url: str, **more: str) -> dict[str, str]:
    return {"name": "m", "mqtt.server.uri": url, "mqtt.topics": "rooms/+/heat", "kafka.topic": "heat", **more}


class Task:
    """A task under the contract's driver; its polls wait for real."""

    def __init__(self, url: str, **more: str) -> None:
        connector = MqttSourceConnector()
        connector.start(configs_of(url, **more))
        [configs] = connector.task_configs(1)
        self.driver = SourceDriver(MqttSourceConnector.task_class(), configs, SystemClock(), {})  # type: ignore[arg-type]
        self.driver.start()

    def poll(self, count: int) -> list[str]:
        return [record.value.decode() for record in self.driver.poll_until(count)]


@pytest.fixture
def broker() -> Iterator[tuple[Broker, str]]:
    broker = Broker()
    with broker.running() as url:
        yield broker, url


def test_what_was_not_stored_comes_again_and_nothing_else(broker: tuple[Broker, str]) -> None:
    server, url = broker
    first = Task(url)
    assert first.driver.poll() == []
    for number in range(10):
        server.publish("rooms/1/heat", str(number).encode())
    server.publish("rooms/1/light", b"not subscribed")
    assert first.poll(10) == [str(number) for number in range(10)]
    first.driver.store()
    until(lambda: server.acknowledged == 10, 10, "acknowledged")
    server.publish("rooms/2/heat", b"10")
    assert first.poll(1) == ["10"]
    first.driver.stop()  # it dies before it has stored the record
    server.publish("rooms/2/heat", b"11")  # while no task runs
    second = Task(url)
    records = second.driver.poll_until(2)
    assert [(each.value, each.key) for each in records] == [(b"10", "rooms/2/heat"), (b"11", "rooms/2/heat")]
    # The other one may be a duplicate, too: sent over the connection that was just ending.
    assert {header.key: header.value for header in records[0].headers}["mqtt.duplicate"] is True
    second.driver.store()
    until(lambda: server.acknowledged == 12, 10, "acknowledged")
    second.driver.stop()


def test_a_broken_connection_is_made_again_and_its_messages_come_again(broker: tuple[Broker, str]) -> None:
    server, url = broker
    task = Task(url)
    assert task.driver.poll() == []
    server.publish("rooms/1/heat", b"1")
    assert task.poll(1) == ["1"]
    server.drop_connections()
    assert task.poll(1) == ["1"], "it was not stored when the connection broke"
    task.driver.store()
    until(lambda: server.acknowledged == 1, 10, "acknowledged once")
    task.driver.stop()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"mqtt.username": "u", "mqtt.password": "wrong"}, "refused the connection: Not authorized"),
        ({"mqtt.topics": "forbidden/a"}, "refused the subscription to forbidden/a"),
    ],
)
def test_a_refusal_fails_the_task(broker: tuple[Broker, str], more: dict[str, str], message: str) -> None:
    task = Task(broker[1], **more)
    with pytest.raises(ConnectError, match=message):
        task.driver.poll()
    task.driver.stop()


def test_messages_become_records(running: RunningCluster, broker: tuple[Broker, str]) -> None:
    server, url = broker
    converters = {"value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"}
    more = configs_of(url, **converters, **{"connector.class": "MqttSource", "kafka.topic": "mqtt-heat"})
    running.create("m", more)
    until(lambda: "m-0" in server.sessions and server.sessions["m-0"].filters != {}, 20, "subscribed")
    for number in range(5):
        server.publish("rooms/1/heat", str(number).encode())
    found = running.read("mqtt-heat", 5)
    assert [(record.key, record.value) for record in found] == [(b"rooms/1/heat", str(n).encode()) for n in range(5)]
    until(lambda: server.acknowledged == 5, 10, "acknowledged")


def publisher(url: str) -> tuple[Any, Callable[[str], None]]:
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", int(url.rpartition(":")[2]))
    client.loop_start()
    return client, lambda text: client.publish("rooms/1/heat", text, qos=1).wait_for_publish(10)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_with_mosquitto(tmp_path: Path, version: str) -> None:
    """The real broker. Slow: it is fetched from Debian where none is installed. The versions of the protocol differ in
    how a session is kept."""
    found = find_mosquitto(tmp_path)
    if found is None:
        pytest.skip("mosquitto is not installed, and cannot be had as a package of Debian")
    with ExitStack() as stack:
        url = stack.enter_context(mosquitto(tmp_path, found))
        client, publish = publisher(url)
        task = Task(url, **{"mqtt.version": version})
        assert task.driver.poll() == []
        for number in range(30):  # more than a broker has in flight
            publish(str(number))
        assert sorted(task.poll(10), key=int)[:5] == ["0", "1", "2", "3", "4"]
        task.driver.stop()
        publish("30")
        second = Task(url, **{"mqtt.version": version})
        seen: list[str] = []
        while len(set(seen)) < 31 and (some := second.poll(1)):
            seen += some
            second.driver.store()
        assert sorted(seen, key=int) == [str(number) for number in range(31)]
        second.driver.stop()
        client.disconnect()
        client.loop_stop()
