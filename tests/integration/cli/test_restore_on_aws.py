"""`odradek restore --to` over moto: tables and objects of an earlier second, functions stopped and started.

moto's point-in-time recovery copies a table as it is now. Here it copies what the table held when the test called
`remember`, which is what DynamoDB does.
"""

from __future__ import annotations

import asyncio
import copy
import io
import json
import time
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto.backends import get_backend
from moto.core import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models.table import RestoredPITTable, Table
from moto.moto_api import state_manager
from odradek.adapters.aws import restore as steps
from odradek.cli import run
from odradek.cli.service import restore
from odradek.client import profiles
from odradek.client.profiles import Profile, save_profile
from odradek.engine.engine import Engine
from odradek.errors import StoreUnavailable
from odradek.functions.environment import HANDLERS
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.settings import Settings
from odradek.system import SystemRng
from odradek.testing.manual_clock import ManualClock

from tests.support.engine import batch, produce, read_all
from tests.support.stores.aws import CREDENTIALS, DYNAMODB, REGION, StoreNames, create_tables, moto_server, open_store
from tests.support.stores.wal_shards import few_wal_shards

pytestmark = pytest.mark.skipif(DYNAMODB is not None, reason="the strict emulator has no point-in-time recovery")

PREFIX = "odradek-test"
NAMES = StoreNames()
SMALL = Settings(item_bytes_max=10, merge_delay_ms=0, sweep_recheck_hours=0)  # every upload is an object
TIMEOUT_S = 900


class Deployed:
    """A deployment in moto, and the time that the command sees."""

    def __init__(self, endpoint: str, patch: pytest.MonkeyPatch) -> None:
        self.endpoint = endpoint
        self._clients: dict[str, Any] = {}
        self.slept_s = 0.0
        # The command's own `time`: that of the process is other threads' as well, some of which rest by it.
        patch.setattr(restore, "time", SimpleNamespace(sleep=self._sleep, time=lambda: time.time() + self.slept_s))
        self.lambdas = self.client("lambda")
        self._make_functions()
        self.snapshot: dict[str, Any] = {}

        def restored(table: RestoredPITTable, name: str, account_id: str, region: str, source: Table) -> None:
            made(table, name, account_id, region, source)
            table.items = copy.deepcopy(self.snapshot[source.name])

        made = RestoredPITTable.__init__
        patch.setattr(RestoredPITTable, "__init__", restored)
        for name in NAMES.tables:
            recovery = {"PointInTimeRecoveryEnabled": True}
            self.client("dynamodb").update_continuous_backups(TableName=name, PointInTimeRecoverySpecification=recovery)
            window = self.table(name).continuous_backups["PointInTimeRecoveryDescription"]
            window["EarliestRestorableDateTime"] = (datetime.now(UTC) - timedelta(days=1)).timestamp()
            window["LatestRestorableDateTime"] = (datetime.now(UTC) + timedelta(days=1)).timestamp()

    def _sleep(self, seconds: float) -> None:
        self.slept_s += seconds

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = boto3.client(service, region_name=REGION, endpoint_url=self.endpoint)
        return self._clients[service]

    def table(self, name: str) -> Table:
        stored_table: Table = get_backend("dynamodb")[DEFAULT_ACCOUNT_ID][REGION].tables[name]
        return stored_table

    def _make_functions(self) -> None:
        trusted = {"Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda"}}]}
        role = self.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=json.dumps(trusted))
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("x.py", "")
        for name in HANDLERS:
            self.lambdas.create_function(
                FunctionName=f"{PREFIX}-{name}",
                Runtime="python3.13",
                Role=role["Role"]["Arn"],
                Handler="x.handler",
                Timeout=TIMEOUT_S,
                Code={"ZipFile": code.getvalue()},
                Environment={"Variables": {"ODRADEK_LOG_TABLE": NAMES.log_table}},
            )
            if name not in ("maintenance", "maintainer"):
                version = self.lambdas.publish_version(FunctionName=f"{PREFIX}-{name}")["Version"]
                self.lambdas.create_alias(FunctionName=f"{PREFIX}-{name}", Name="live", FunctionVersion=version)
        self.lambdas.put_function_concurrency(FunctionName=f"{PREFIX}-produce", ReservedConcurrentExecutions=7)

    def remember(self) -> str:
        """Note the log's state and return its second; later changes are of another second."""
        self.snapshot = {name: copy.deepcopy(self.table(name).items) for name in NAMES.tables}
        time.sleep(1.1)
        moment = datetime.now(UTC).replace(microsecond=0)
        time.sleep(1.1)
        return moment.isoformat()

    def concurrency(self) -> dict[str, int | None]:
        return {
            name: self.lambdas.get_function_concurrency(FunctionName=f"{PREFIX}-{name}").get(
                "ReservedConcurrentExecutions"
            )
            for name in HANDLERS
        }

    def versions(self) -> dict[str, str]:
        return {
            name: self.lambdas.get_alias(FunctionName=f"{PREFIX}-{name}", Name="live")["FunctionVersion"]
            for name in HANDLERS
            if name not in ("maintenance", "maintainer")
        }


@pytest.fixture
def deployed(tmp_path: Any) -> Iterator[Deployed]:
    with pytest.MonkeyPatch.context() as patch, few_wal_shards(), moto_server() as endpoint:
        for name, value in {**CREDENTIALS, "ODRADEK_SWEEP_RECHECK_HOURS": "0"}.items():
            patch.setenv(name, value)
        create_tables(endpoint)
        outputs = {
            "LogTableName": NAMES.log_table,
            "GroupsTableName": NAMES.groups_table,
            "CatalogTableName": NAMES.catalog_table,
            "BucketName": NAMES.bucket,
            "MaintenanceFunctionName": f"{PREFIX}-maintenance",
        }
        patch.setattr(profiles, "FILE", tmp_path / "config.json")
        save_profile(Profile("test", "https://c.example", REGION, outputs), tmp_path / "config.json")
        yield Deployed(endpoint, patch)


def clock_of_now() -> ManualClock:
    """A clock that a test may advance: uploads are of its time."""
    return ManualClock(int(time.time() * 1000), auto_advance=True)


async def write(endpoint: str) -> None:
    """A topic with records, a group that has read some."""
    async with open_store(endpoint) as store:
        engine = Engine(tables=store, objects=store.objects, clock=store.clock, rng=SystemRng(), settings=SMALL)
        await engine.topics.create("t", 2)
        for number in range(6):
            assert not (await produce(engine, "t", number % 2, batch([b"before %d" % number]))).error
        await engine.offsets.commit("g", {TopicPartition("t", 0): OffsetAndMetadata(2)})


async def spoil(endpoint: str) -> int:
    """Make a mistake to restore from: delete the topic, let maintenance delete its objects. Returns a producer id."""
    clock = clock_of_now()
    async with open_store(endpoint) as store:
        engine = Engine(tables=store, objects=store.objects, clock=clock, rng=SystemRng(), settings=SMALL)
        assert not (await produce(engine, "t", 0, batch([b"after"]))).error
        await engine.offsets.commit("g", {TopicPartition("t", 0): OffsetAndMetadata(4)})
        await engine.topics.delete("t")
        await engine.topics.create("new")
        for _ in range(3):
            clock.advance(2 * 3600)
            assert (await engine.maintenance.run()).failures == []
        assert [topic.name for topic in await engine.topics.list()] == ["new"]
        return await engine.producer_ids.next_id()


async def read(endpoint: str) -> tuple[list[list[bytes | None]], int, int]:
    """The records of both partitions, the offset of the group, a new producer id."""
    async with open_store(endpoint) as store:
        engine = Engine(tables=store, objects=store.objects, clock=store.clock, rng=SystemRng(), settings=SMALL)
        assert [topic.name for topic in await engine.topics.list()] == ["t"]
        records = [[record.value for record in await read_all(engine, "t", number)] for number in range(2)]
        [offset] = await engine.offsets.fetch("g", None)
        assert offset.committed is not None
        return records, offset.committed.offset, await engine.producer_ids.next_id()


BEFORE = [[b"before 0", b"before 2", b"before 4"], [b"before 1", b"before 3", b"before 5"]]


def ask(deployed: Deployed, to: str, *more: str) -> int:
    return run(["restore", "--to", to, "--yes", "--endpoint-url", deployed.endpoint, *more])


def test_a_deleted_topic_comes_back_with_its_records_and_its_group(
    deployed: Deployed, capsys: pytest.CaptureFixture[str]
) -> None:
    deployed.client("s3").put_bucket_versioning(Bucket=NAMES.bucket, VersioningConfiguration={"Status": "Enabled"})
    asyncio.run(write(deployed.endpoint))
    moment = deployed.remember()
    next_producer_id = asyncio.run(spoil(deployed.endpoint))
    before, versions = deployed.concurrency(), deployed.versions()

    assert ask(deployed, moment, "--output", "json") == 0, capsys.readouterr().err
    done = json.loads(capsys.readouterr().out)
    assert done["items_put"] > 3
    assert done["items_deleted"] > 0
    assert done["objects_brought_back"] >= 6
    assert done["missing"] == []
    records, offset, producer_id = asyncio.run(read(deployed.endpoint))
    assert (records, offset) == (BEFORE, 2)
    assert producer_id > next_producer_id, "an id that a producer may still use is not given again"
    # Nobody wrote while the tables changed: the last invocation had its time-out to end in.
    assert deployed.slept_s >= TIMEOUT_S - 60
    assert deployed.concurrency() == before
    assert before["produce"] == 7
    assert all(int(version) > int(versions[name]) for name, version in deployed.versions().items())
    for name in HANDLERS:
        function = deployed.lambdas.get_function_configuration(FunctionName=f"{PREFIX}-{name}")
        assert function["Environment"]["Variables"]["ODRADEK_LOG_TABLE"] == NAMES.log_table
        assert not deployed.lambdas.list_tags(Resource=function["FunctionArn"])["Tags"]
    assert set(deployed.client("dynamodb").list_tables()["TableNames"]) == {*NAMES.tables, NAMES.rows_table}
    assert (
        run(["audit", "--bucket", NAMES.bucket, "--region", REGION, "--endpoint-url", deployed.endpoint, *TABLES]) == 0
    )


TABLES = [part for name in ("log", "groups", "catalog") for part in (f"--{name}-table", f"odradek-{name}")]


def test_what_is_gone_for_good_is_told_and_nothing_changes(
    deployed: Deployed, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(write(deployed.endpoint))
    moment = deployed.remember()
    asyncio.run(spoil(deployed.endpoint))
    now = {name: copy.deepcopy(deployed.table(name).items) for name in NAMES.tables}
    before, versions = deployed.concurrency(), deployed.versions()

    assert ask(deployed, moment) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("odradek: nothing was restored: ")
    assert "keep_deleted_days" in said
    assert "t-0" in said or "t-1" in said
    for name, items in now.items():
        assert {key: dict(rows) for key, rows in deployed.table(name).items.items()} == items
    assert deployed.concurrency() == before, "the functions serve again"
    assert deployed.versions() == versions

    assert ask(deployed, moment, "--accept-missing", "--output", "json") == 0
    assert len(json.loads(capsys.readouterr().out)["missing"]) >= 2


def refused(*_: Any, **__: Any) -> Any:
    raise StoreUnavailable("DynamoDB says no")


def test_a_restore_that_fails_before_it_changes_anything_lets_the_functions_go_on(
    deployed: Deployed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, versions = deployed.concurrency(), deployed.versions()
    monkeypatch.setattr(steps, "restore_tables", refused)
    assert ask(deployed, deployed.remember()) == 1
    assert "DynamoDB says no" in capsys.readouterr().err
    assert (deployed.concurrency(), deployed.versions()) == (before, versions)


def test_an_interrupted_restore_is_finished_by_the_same_command(
    deployed: Deployed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed.client("s3").put_bucket_versioning(Bucket=NAMES.bucket, VersioningConfiguration={"Status": "Enabled"})
    asyncio.run(write(deployed.endpoint))
    moment = deployed.remember()
    asyncio.run(spoil(deployed.endpoint))
    before = deployed.concurrency()
    real, calls = steps.make_equal, 0

    def interrupted(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return real(*arguments, **named)

    monkeypatch.setattr(steps, "make_equal", interrupted)
    assert ask(deployed, moment) == 130
    assert set(deployed.concurrency().values()) == {0}, "half a store is not served"
    with monkeypatch.context() as patch:
        patch.setattr(steps, "restore_tables", refused)
        assert ask(deployed, moment) == 1
    assert set(deployed.concurrency().values()) == {0}, "neither is it when a second attempt fails earlier"
    assert ask(deployed, moment) == 0
    assert asyncio.run(read(deployed.endpoint))[:2] == (BEFORE, 2)
    assert deployed.concurrency() == before


def test_what_cannot_be_restored_is_refused_before_anything_stops(
    deployed: Deployed, capsys: pytest.CaptureFixture[str]
) -> None:
    before = deployed.concurrency()
    for to, text in (
        ("2020-01-01T00:00:00Z", "can be restored to any second from"),
        ("2026-11-22 10:00", "a time with its zone"),
        ("yesterday", "a time with its zone"),
    ):
        assert ask(deployed, to) == 2
        said = capsys.readouterr().err
        assert text in said
        assert said.count("\n") == 1
    assert run(["restore"]) == 2
    assert "name a backup's folder, or --to a time" in capsys.readouterr().err
    glue = deployed.client("glue")
    glue.create_job(Name=f"{PREFIX}-mirror", Role="r", Command={"Name": "gluestreaming", "ScriptLocation": "s3://x"})
    state_manager.set_transition("glue::job_run", {"progression": "manual", "times": 3})
    glue.start_job_run(JobName=f"{PREFIX}-mirror")
    assert ask(deployed, datetime.now(UTC).isoformat()) == 1
    state_manager.unset_transition("glue::job_run")
    assert f"stop these jobs first (aws glue batch-stop-job-run), they write to the store: {PREFIX}-mirror" in (
        capsys.readouterr().err
    )
    assert deployed.concurrency() == before
