"""The clients against the embedded service: its function URLs, its limits, its signatures."""

from __future__ import annotations

from pathlib import Path

import odradek
import pytest
from odradek import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from odradek.errors import ErrorCode


def test_records_make_the_round_trip(tmp_path: Path) -> None:
    values = [b"%06d" % i + b"x" * 994 for i in range(6_000)]  # 6 MB: more than one request
    with odradek.local(tmp_path) as service:
        configs = service.client_config
        with Admin(**configs) as admin:
            admin.create_topics([NewTopic("flights", 3)])
        with Producer(**configs, compression_type="none") as producer:
            for i, value in enumerate(values):
                producer.send("flights", value, key=b"N%d" % (i % 50))
        values_read: list[bytes] = []
        with Consumer(**configs, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["flights"])
            for record in consumer:
                values_read.append(record.value)
                if len(values_read) == len(values):
                    break
            assert set(consumer.lag().values()) == {0}
        with Admin(**configs) as admin:
            committed = admin.list_consumer_group_offsets("g")
        assert sorted(values_read) == values
        assert sum(offset.offset for offset in committed.values()) == len(values)
        wrong = {**configs, "aws_secret_access_key": "wrong"}
        with pytest.raises(KafkaError) as failure, Admin(**wrong) as admin:
            admin.list_topics()
        assert failure.value.code in {ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.SASL_AUTHENTICATION_FAILED}
        assert TopicPartition("flights", 0) in committed
