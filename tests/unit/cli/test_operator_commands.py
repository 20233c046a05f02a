"""Cost, doctor, profiles: what operators ask, without an account."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.cli.service.configure import read_outputs
from odradek.client.profiles import Profile, load_profile, save_profile
from odradek.cost.clients import Clients
from odradek.cost.measure import measure
from odradek.cost.model import Measured, Workload, deleted_copies, own_cost, peer_costs, with_linger
from odradek.errors import ErrorCode, KafkaError
from odradek.operations.costs import parse_rate, parse_time
from odradek.operations.health.capacity import TableCapacity
from odradek.operations.health.checks import advice, check_reach, clock_finding, queue_finding, table_findings

MIB = 2**20


def test_rates_and_times() -> None:
    assert parse_rate("5MiB/s") == 5 * MIB
    assert parse_rate(" 200 kB/s ") == 200_000
    assert parse_rate("0") == 0
    assert parse_time("7d") == 7 * 86_400
    for parse, text in ((parse_rate, "5MiB"), (parse_rate, "-1B/s"), (parse_rate, "1.2.3B/s"), (parse_time, "7 years")):
        with pytest.raises(KafkaError) as refused:
            parse(text)
        assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_peers_cost_what_their_price_pages_say_for_a_tebibyte() -> None:
    load = Workload(2**40 / (730 * 3600), retention_s=7 * 86_400, partitions=0)
    peers = peer_costs(load)
    assert peers["Kinesis on demand"] == pytest.approx(143 + 29, rel=0.02)
    assert peers["MSK Serverless"] == pytest.approx(177 + 548, rel=0.02)
    assert peers["MSK provisioned"] == pytest.approx(98 + 447, rel=0.02)
    assert peers["Kafka in three zones"] == pytest.approx(125 + 3 * 730 * 0.0816, rel=0.02)


@pytest.mark.parametrize(
    ("rate", "is_item", "copies"),
    [
        (16 * MIB, False, 2),  # a partition fills a segment of 64 MiB within the ten minutes of a merge
        (MIB, False, 3),  # 38 MiB, then 64
        (MIB / 1000, True, 7),  # no upload; 38 KiB, four times as much, and so on up to 64 MiB
    ],
)
def test_what_is_kept_of_deleted_objects_costs_storage(rate: float, is_item: bool, copies: int) -> None:
    load = Workload(rate, partitions=16, retention_s=86_400, keep_deleted_s=35 * 86_400)
    measured = Measured(is_item=is_item)
    assert deleted_copies(load, is_item) == copies
    dollars = own_cost(load, measured)
    assert dollars["deleted objects"] == pytest.approx(35 * copies * dollars["storage"])
    assert "deleted objects" not in own_cost(replace(load, keep_deleted_s=0), measured)


async def test_own_cost_follows_from_counted_requests() -> None:
    load = Workload(MIB, producers=4, linger_ms=1000, partitions=4)
    measured = await measure(load)
    assert not measured.is_item
    assert measured.per_append.object_put_requests == pytest.approx(1)
    dollars = own_cost(load, measured)
    assert dollars["object puts"] == pytest.approx(4 * 730 * 3600 * 0.005 / 1000, rel=0.1)
    short = with_linger(load, 5)
    assert sum(own_cost(short, await measure(short)).values()) > 3 * sum(dollars.values())


async def test_partitions_that_records_are_spread_over_and_producers_cost_units() -> None:
    one = await measure(Workload(MIB, linger_ms=1000, partitions=1))
    spread = await measure(Workload(MIB, linger_ms=1000, partitions=8))
    many = await measure(Workload(MIB, linger_ms=1000, partitions=8, producers=16))
    units = [cost.per_append.table_write_units for cost in (one, spread, many)]
    assert units == sorted(units)
    assert units[1] < 4 * units[0], "partitions that share a head are one update"


async def test_an_idle_stage_costs_what_its_alarms_polls_and_plans_do() -> None:
    load = Workload(0, producers=1, consumers=0, partitions=24)
    dollars = own_cost(load, await measure(load))
    assert 3 < sum(dollars.values()) <= 4
    assert dollars["storage"] == dollars["object gets"] == 0


async def test_egress_is_counted_where_clients_are_elsewhere() -> None:
    load = Workload(MIB, linger_ms=1000, consumers=2, partitions=4)
    measured = await measure(load)
    inside = sum(own_cost(load, measured).values())
    nat = own_cost(replace(load, clients=Clients.NAT), measured)
    internet = own_cost(replace(load, clients=Clients.INTERNET), measured)
    assert nat["NAT"] == pytest.approx(730 * 0.045 + 3 * load.gb_month * 0.045)
    assert internet["egress"] == pytest.approx(2 * load.gb_month * 0.09)
    assert sum(nat.values()) - nat["NAT"] == pytest.approx(inside)


def test_clocks() -> None:
    assert [clock_finding(skew_s).outcome for skew_s in (0.2, 90, 400)] == ["ok", "warn", "FAIL"]


def test_an_address_where_nobody_answers() -> None:
    [finding] = check_reach("http://127.0.0.1:1")
    assert (finding.outcome, finding.check) == ("FAIL", "reach")


def test_a_refused_signature_is_no_missing_acl() -> None:
    error = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "http://x answered HTTP 403: The key is not known.")
    assert "not known. Attach the client policy" in advice(error)
    assert "ACL" in advice(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no"))


class Tables:
    """DynamoDB's description of a table."""

    def __init__(
        self, billing: str | None = "PAY_PER_REQUEST", recovery: str = "ENABLED", sort_key: str = "sk"
    ) -> None:
        keys = [("pk", "HASH"), (sort_key, "RANGE")]
        self.table: dict[str, Any] = {} if billing is None else {"BillingModeSummary": {"BillingMode": billing}}
        self.table |= {
            "KeySchema": [{"AttributeName": name, "KeyType": key_type} for name, key_type in keys],
        }
        self.recovery = recovery

    def describe_table(self, **_: Any) -> Any:
        return {"Table": self.table}

    def describe_continuous_backups(self, **_: Any) -> Any:
        status = {"PointInTimeRecoveryStatus": self.recovery}
        return {"ContinuousBackupsDescription": {"PointInTimeRecoveryDescription": status}}


PROVISIONED = TableCapacity(100, 200, 100, 200)


@pytest.mark.parametrize(
    ("tables", "capacity", "outcome", "text"),
    [
        (Tables(), None, "ok", "log: on demand, point-in-time recovery"),
        (Tables(billing="PROVISIONED"), PROVISIONED, "ok", "log: provisioned capacity, point-in-time recovery"),
        (Tables(billing=None), PROVISIONED, "ok", "provisioned"),  # one that was never on demand has no summary
        (Tables(billing="PROVISIONED"), None, "warn", "its stage says on demand"),
        (Tables(billing=None), None, "warn", "its stage says on demand"),
        (Tables(), PROVISIONED, "warn", "is on demand, and its stage says provisioned"),
        (Tables(recovery="DISABLED"), None, "warn", "cannot be restored"),
        (Tables(sort_key="id"), None, "FAIL", "other keys"),
    ],
)
def test_settings_of_tables(tables: Tables, capacity: TableCapacity | None, outcome: str, text: str) -> None:
    [finding] = table_findings(tables, "log", capacity)
    assert finding.outcome == outcome
    assert text in finding.text


@pytest.mark.parametrize(
    ("queue", "dead", "outcome", "text"),
    [
        ({"RedrivePolicy": "{}"}, "0", "ok", "7 tasks wait, none failed"),
        ({"RedrivePolicy": "{}"}, "3", "warn", "3 tasks failed permanently"),
        ({}, "0", "warn", "no dead-letter queue"),
    ],
)
def test_the_queue_of_maintenance(queue: dict[str, str], dead: str, outcome: str, text: str) -> None:
    finding = queue_finding({**queue, "ApproximateNumberOfMessages": "7"}, {"ApproximateNumberOfMessages": dead})
    assert finding.outcome == outcome
    assert text in finding.text


def test_profiles_are_kept_by_name_and_hold_no_credential(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "config.json"
    assert load_profile(path) is None
    for name in ("dev", "prod"):
        save_profile(Profile(name, f"https://{name}.example", "eu-west-1", {"BucketName": "b"}), path)
    assert load_profile(path) == Profile("prod", "https://prod.example", "eu-west-1", {"BucketName": "b"})
    assert (load_profile(path, "dev") or Profile("", "", "")).bootstrap_servers == "https://dev.example"
    with pytest.raises(KafkaError, match="no profile 'test'"):
        load_profile(path, "test")
    path.write_text("{")
    with pytest.raises(KafkaError, match="cannot be read"):
        load_profile(path)


class CloudFormation:
    """Stacks by name."""

    def __init__(self, **stacks: dict[str, str]) -> None:
        self.stacks = {name.replace("_", "-"): outputs for name, outputs in stacks.items()}

    def describe_stacks(self, StackName: str) -> Any:
        from botocore.exceptions import ClientError

        if StackName not in self.stacks:
            message = f"Stack with id {StackName} does not exist"
            raise ClientError({"Error": {"Code": "ValidationError", "Message": message}}, "DescribeStacks")
        outputs = [{"OutputKey": key, "OutputValue": value} for key, value in self.stacks[StackName].items()]
        return {"Stacks": [{"Outputs": outputs}]}


def test_outputs_of_all_stacks_of_a_deployment() -> None:
    stacks = CloudFormation(odradek_dev_api={"CoordinatorUrl": "https://c"}, odradek_dev_storage={"BucketName": "b"})
    assert read_outputs(stacks, "odradek-dev") == {"CoordinatorUrl": "https://c", "BucketName": "b"}
    with pytest.raises(KafkaError, match="no stack odradek-prod-api"):
        read_outputs(stacks, "odradek-prod")
