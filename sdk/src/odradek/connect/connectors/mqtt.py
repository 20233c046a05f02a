"""The MQTT source: messages of topics, acknowledged to the broker when their records are stored. At least once.

The session is kept (`mqtt.clean.session.enabled=false`), so that the broker holds back messages of QoS 1 while no task
runs. A message whose acknowledgement was lost, because the task died or the connection broke, is delivered again
and becomes a second record. Messages of QoS 0 are lost while the task is away: that is their nature.

Configurations are those of Confluent's connector.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from odradek.connect.config import ConfigDef, Kind, between, non_empty, one_of
from odradek.connect.data import schema as schemas
from odradek.connect.errors import ConfigError, ConnectError, RetriableError
from odradek.connect.plugin import Configs, ExactlyOnceSupport, SourceConnector, SourceTask
from odradek.connect.record import Header, SourceRecord
from odradek.extras import extra

with extra("connect-mqtt"):
    from paho.mqtt import client as mqtt
    from paho.mqtt.enums import CallbackAPIVersion
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

_DEFINITIONS = (
    ConfigDef()
    .define(
        "mqtt.server.uri", Kind.STRING, documentation="The broker: tcp://host:1883, or ssl://host:8883.",
        importance="HIGH", allowed=non_empty(),
    )
    .define(
        "mqtt.topics", Kind.LIST, documentation="Topic filters, with + and #; they are divided among the tasks.",
        importance="HIGH", allowed=non_empty(),
    )
    .define("kafka.topic", Kind.STRING, documentation="The topic.", importance="HIGH", allowed=non_empty(),
            also=("topic",))
    # Not 2: a message of which the broker has PUBREC is not sent again to a task that died before it stored the record.
    .define(
        "mqtt.qos", Kind.INT, 1, "The quality of service to ask for; messages of QoS 2 then come with QoS 1.",
        allowed=between(0, 1),
    )
    .define(
        "mqtt.clean.session.enabled", Kind.BOOLEAN, False,
        "true: the broker forgets the session, and messages are lost while no task runs.",
    )
    .define("mqtt.client.id", Kind.STRING, None, "Client id, to which the task's number is added; by default the name.")
    .define("mqtt.version", Kind.STRING, "3.1.1", "Version of the protocol.", allowed=one_of("3.1.1", "5"))
    .define(
        "mqtt.session.expiry.interval.seconds", Kind.LONG, 7 * 24 * 3600,
        "Version 5: how long the broker keeps the session of an absent task.", allowed=between(0, 0xFFFFFFFF),
    )
    .define("mqtt.username", Kind.STRING, None, "The user.")
    .define("mqtt.password", Kind.PASSWORD, None, "The password.")
    .define("mqtt.connect.timeout.seconds", Kind.INT, 30, "Time to connect and to subscribe.", allowed=between(1))
    .define("mqtt.keepalive.interval.seconds", Kind.INT, 60, "Time between two signs of life.", allowed=between(1))
    .define("mqtt.ssl.ca.location", Kind.STRING, None, "File of the certificates to trust; by default the system's.")
    .define("mqtt.ssl.certificate.location", Kind.STRING, None, "File of the task's own certificate.")
    .define("mqtt.ssl.key.location", Kind.STRING, None, "File of its key.")
    .define("records.buffer.max", Kind.INT, 1_000, "Messages of one poll.", importance="LOW", allowed=between(1))
)  # fmt: skip
_PORTS = {"tcp": 1883, "mqtt": 1883, "ssl": 8883, "mqtts": 8883}
_POLL_S = 0.5


class _Received(NamedTuple):
    """A message, and the connection that it came over: no other one may acknowledge it."""

    connection: int
    message: mqtt.MQTTMessage


class MqttSourceTask(SourceTask):
    """Receives messages; a thread of paho's does the talking."""

    _client: mqtt.Client | None = None

    def start(self, configs: Configs) -> None:
        self._options = _DEFINITIONS.parse(configs)
        self._own_id = f"{self._options['mqtt.client.id'] or configs.get('name', 'odradek')}-{configs['task.number']}"
        self._messages: queue.SimpleQueue[_Received] = queue.SimpleQueue()
        self._polled: list[_Received] = []  # not acknowledged yet
        self._subscribed = threading.Event()
        self._problem: ConnectError | None = None
        self._connection = 0

    # --- the connection: callbacks are called by paho's thread ----------------------------------------------------

    def _connect(self) -> None:
        """Connect and subscribe. Raises RetriableError, ConnectError."""
        configs = self._options
        scheme, host, port = _address(configs["mqtt.server.uri"])
        is_5 = configs["mqtt.version"] == "5"
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=self._own_id,
            protocol=mqtt.MQTTv5 if is_5 else mqtt.MQTTv311,
            clean_session=None if is_5 else configs["mqtt.clean.session.enabled"],
            manual_ack=True,
        )
        if configs["mqtt.username"] is not None:
            client.username_pw_set(configs["mqtt.username"], configs["mqtt.password"])
        if _PORTS[scheme] == _PORTS["ssl"]:
            try:
                client.tls_set(
                    ca_certs=configs["mqtt.ssl.ca.location"],
                    certfile=configs["mqtt.ssl.certificate.location"],
                    keyfile=configs["mqtt.ssl.key.location"],
                )
            except (OSError, ValueError) as error:
                raise ConnectError(f"the certificates of mqtt.ssl.* cannot be read: {error}") from error
        client.on_connect, client.on_subscribe, client.on_message = self._connected, self._granted, self._take
        options: dict[str, Any] = {"keepalive": configs["mqtt.keepalive.interval.seconds"]}
        if is_5:
            options |= {"clean_start": configs["mqtt.clean.session.enabled"], "properties": _kept(configs)}
        client.connect_timeout = float(configs["mqtt.connect.timeout.seconds"])
        try:
            client.connect(host, port, **options)
        except OSError as error:
            raise RetriableError(f"the broker {configs['mqtt.server.uri']} does not answer: {error}") from error
        self._client = client
        client.loop_start()

    def _connected(self, client: mqtt.Client, _: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._connection += 1
        if reason.is_failure:
            self._problem = ConnectError(f"the broker refused the connection: {reason}")
            self._subscribed.set()
        else:
            client.subscribe([(topic, self._options["mqtt.qos"]) for topic in self._options["mqtt.topics"]])

    def _granted(self, client: mqtt.Client, _: Any, message_id: int, reasons: Any, properties: Any) -> None:
        for name, reason in zip(self._options["mqtt.topics"], reasons, strict=False):
            if reason.is_failure:
                self._problem = ConnectError(f"the broker refused the subscription to {name}: {reason}")
        self._subscribed.set()

    def _take(self, client: mqtt.Client, _: Any, message: mqtt.MQTTMessage) -> None:
        self._messages.put(_Received(self._connection, message))

    # --- called by the worker -------------------------------------------------------------------------------------

    def poll(self) -> list[SourceRecord]:
        if self._client is None:
            self._connect()
            if not self._subscribed.wait(self._options["mqtt.connect.timeout.seconds"]):
                self._disconnect()
                raise RetriableError(f"the broker {self._options['mqtt.server.uri']} does not answer")
        if self._problem is not None:
            raise self._problem
        received: list[_Received] = []
        while len(received) < self._options["records.buffer.max"]:
            try:
                received.append(self._messages.get_nowait() if received else self._messages.get(timeout=_POLL_S))
            except queue.Empty:
                break
        self._polled += received
        return [self._record(message.message) for message in received]

    def _record(self, message: mqtt.MQTTMessage) -> SourceRecord:
        return SourceRecord(
            topic=self._options["kafka.topic"],
            key=message.topic,
            key_schema=schemas.STRING,
            value=bytes(message.payload),
            value_schema=schemas.BYTES,
            headers=(
                Header("mqtt.message.id", message.mid, schemas.INT32),
                Header("mqtt.qos", message.qos, schemas.INT32),
                Header("mqtt.retained", message.retain, schemas.BOOLEAN),
                Header("mqtt.duplicate", message.dup, schemas.BOOLEAN),
            ),
        )

    def commit(self) -> None:
        """Acknowledge what was polled, but for what came over a connection that broke: that comes again."""
        polled, self._polled = self._polled, []
        assert self._client is not None
        for message in polled:
            if message.connection == self._connection:
                self._client.ack(message.message.mid, message.message.qos)

    def stop(self) -> None:
        self._disconnect()

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.disconnect()
            client.loop_stop()


def _address(uri: str) -> tuple[str, str, int]:
    parts = urlsplit(uri)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ConfigError({"mqtt.server.uri": [f"mqtt.server.uri must be tcp://host:1883 or ssl://..., not {uri!r}"]})
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]


def _kept(options: Mapping[str, Any]) -> Any:
    properties: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    if not options["mqtt.clean.session.enabled"]:
        properties.SessionExpiryInterval = options["mqtt.session.expiry.interval.seconds"]
    return properties


class MqttSourceConnector(SourceConnector):
    """Messages of an MQTT broker."""

    task_class = MqttSourceTask
    config_def = _DEFINITIONS

    @classmethod
    def exactly_once_support(cls, configs: Configs) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.UNSUPPORTED

    def start(self, configs: Configs) -> None:
        super().start(configs)
        _address(str(_DEFINITIONS.parse(configs)["mqtt.server.uri"]))

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        topics = _DEFINITIONS.parse(self.configs)["mqtt.topics"]
        shares = [topics[number::tasks_max] for number in range(min(tasks_max, len(topics)))]
        return [
            {**self.configs, "mqtt.topics": ",".join(share), "task.number": str(number)}
            for number, share in enumerate(shares)
        ]
