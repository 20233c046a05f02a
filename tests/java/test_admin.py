"""Java's own Admin: what its methods make of our answers. It takes some nulls that the protocol allows for errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.java.programs import JavaProgram
from tests.support.kafka import port

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

ANSWERS = {
    "createTopics": "3600000",
    "listTopics": "true",
    "describeTopics": "1/1 1/1",
    "describeTopics by id": "1",
    "describeCluster": "1",
    "describeConfigs": "3600000",
    "describeConfigs of a broker": "true",
    "incrementalAlterConfigs": "null",
    "listConfigResources": "true",
    "createPartitions": "null",
    "describeFeatures": "2",
    "describeLogDirs": "[objects]",
    "produce": "4",
    "listOffsets EarliestSpec": "0",
    "listOffsets LatestSpec": "5",
    "listOffsets MaxTimestampSpec": "4",
    "listOffsets TimestampSpec": "2",
    "describeProducers": "1",
    "deleteRecords": "2",
    "alterConsumerGroupOffsets": "null",
    "listConsumerGroupOffsets": "3",
    "listGroups": "[tourists]",
    "describeConsumerGroups": "Empty",
    "deleteConsumerGroupOffsets": "null",
    "deleteConsumerGroups": "null",
    "alterShareGroupOffsets": "null",
    "listShareGroupOffsets": "1",
    "describeShareGroups": "Empty",
    "deleteShareGroups": "null",
    "fenceProducers": "0",
    "listTransactions": "[tour-tx]",
    "describeTransactions": "Empty",
    "createAcls": "null",
    "describeAcls": "true",
    "deleteAcls": "1",
    "alterClientQuotas": "null",
    "describeClientQuotas": "{producer_byte_rate=1000000.0}",
    "alterUserScramCredentials": "null",
    "describeUserScramCredentials": "1",
    "deleteTopics": "null",
}


def test_every_method(tmp_path: Path) -> None:
    with (
        port.kafka_service(super_users="User:ANONYMOUS") as service,
        JavaProgram("odradek.AdminTour", service.kafka_bootstrap_servers, log=tmp_path / "admin.log") as program,
    ):
        lines = program.wait(200)
    assert dict(line.split(": ", 1) for line in lines) == ANSWERS, program.tail()
