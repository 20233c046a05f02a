"""The clients of the matrix, from the oldest release that speaks to Kafka 4 to the newest, and what each one does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Installer = Literal["pip", "go", "npm", "maven", "debian"]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LOGINS = ("plain", "scram", "plain_tls", "scram_tls")
TASKS: dict[str, str] = {
    **{codec: f"produce with {codec}" for codec in CODECS},
    "log_append_time": "produce to a topic with LogAppendTime, and read its timestamps",
    "group": "consume two partitions in a group, and commit",
    "transaction": "commit, abort and commit a transaction",
    "plain": "log in by SASL PLAIN without TLS, and produce",
    "scram": "log in by SCRAM-SHA-256 without TLS, and produce",
    "plain_tls": "log in by SASL PLAIN over TLS, and produce",
    "scram_tls": "log in by SCRAM-SHA-512 over TLS, and produce",
    "topics": "create topics, grow and delete one",
    "configs": "change and describe a topic's configuration",
    "groups": "list, describe and delete groups",
    "times": "look an offset up by time",
}


@dataclass(frozen=True, slots=True)
class Client:
    """One version of one client.

    Attributes:
        name: as its users call it.
        installer: how it is fetched.
        package: by the installer's name.
        program: in the folder `programs`.
        expected: the tasks that fail with this version, and the reason, which a user understands.
        needs: packages beside it: an old version of what it depends on, a newer runtime.
    """

    name: str
    version: str
    installer: Installer
    package: str
    program: str
    expected: tuple[tuple[str, str], ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"


_OLD_NONCE = "SCRAM of librdkafka before 2.6.1 repeats its nonce, which Kafka 4 refuses too"
_OLD_SCRAM = (("scram", _OLD_NONCE), ("scram_tls", _OLD_NONCE))

CLIENTS: tuple[Client, ...] = (
    *(
        Client("confluent-kafka", version, "pip", "confluent-kafka", "confluent.py", expected)
        for version, expected in (
            ("2.0.2", _OLD_SCRAM),
            ("2.3.0", _OLD_SCRAM),
            ("2.6.0", _OLD_SCRAM),
            ("2.8.2", ()),
            ("2.10.1", ()),
            ("2.11.1", ()),
            ("2.16.1", ()),
        )
    ),
    Client("kcat", "1.7.1", "debian", "kcat", "kcat_tasks.py", _OLD_SCRAM),
    *(
        Client("kafka-python", version, "pip", "kafka-python", "kafka_python.py")
        for version in ("2.0.2", "2.2.15", "3.0.12")
    ),
    Client("aiokafka", "0.8.1", "pip", "aiokafka", "aio.py", needs=("kafka-python==2.0.2",)),
    *(Client("aiokafka", version, "pip", "aiokafka", "aio.py") for version in ("0.10.0", "0.14.0")),
    *(
        Client("sarama", version, "go", "github.com/IBM/sarama", "sarama")
        for version in ("v1.43.3", "v1.45.2", "v1.61.1")
    ),
    Client("kafka-go", "v0.4.51", "go", "github.com/segmentio/kafka-go", "kafka_go"),
    Client("franz-go", "v1.22.3", "go", "github.com/twmb/franz-go", "franz_go"),
    Client("kafkajs", "2.2.4", "npm", "kafkajs", "kafkajs.js"),
    Client("@platformatic/kafka", "2.12.1", "npm", "@platformatic/kafka", "platformatic.mjs", needs=("node@24",)),
    *(
        Client("Java", version, "maven", "org.apache.kafka:kafka-clients", "ClientTasks.java")
        for version in ("2.8.2", "3.3.2", "3.9.1", "4.0.1", "4.4.0")
    ),
)
