"""The Glue job as CloudFormation gets it."""

from __future__ import annotations

import importlib
import json
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest

from infra.permissions import COMPACT_TOPIC, JOBS
from infra.stages import STAGES
from tests.infra.conftest import Deployment, as_list
from tools.package import PROVIDED_BY_GLUE, glue_requirements


@pytest.fixture
def job(dev: Deployment) -> dict[str, Any]:
    return jobs(dev)["flight_delays"]


def jobs(dev: Deployment) -> dict[str, dict[str, Any]]:
    """The properties of every job, by the name of its folder."""
    made = dev.resources("pipeline", "AWS::Glue::Job").values()
    return {job["Properties"]["Name"].removeprefix("odradek-dev-"): job["Properties"] for job in made}


def uploaded(dev: Deployment) -> dict[str, str]:
    """The key of each uploaded file, to the path it comes from."""
    return {
        destination["objectKey"]: file["source"]["path"]
        for file in dev.assets["pipeline"].values()
        for destination in file["destinations"].values()
    }


def test_the_job_streams_on_glue_6_with_the_smallest_workers(job: dict[str, Any]) -> None:
    assert job["GlueVersion"] == "6.0"
    assert job["WorkerType"] == "G.025X"
    assert job["NumberOfWorkers"] >= 2
    assert job["Command"]["Name"] == "gluestreaming"
    assert job["Command"]["PythonVersion"] == "3"
    assert job["ExecutionProperty"] == {"MaxConcurrentRuns": 1}  # a checkpoint has one owner


@pytest.mark.parametrize("name", JOBS)
def test_a_job_runs_until_glue_restarts_it_in_its_window(dev: Deployment, name: str) -> None:
    # A run without a time-out ends after 480 minutes; one below seven days ends, and is not restarted.
    assert jobs(dev)[name]["Timeout"] == 7 * 24 * 60
    assert jobs(dev)[name]["MaintenanceWindow"] == "Sun:02"


@pytest.mark.parametrize(
    "change", [{"job_timeout_minutes": 10_081}, {"job_timeout_minutes": 0}, {"job_maintenance_window": "Sunday 2"}]
)
def test_what_glue_would_refuse_is_refused_before(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        replace(STAGES["dev"], **change)


def test_nothing_starts_the_job_by_itself(dev: Deployment) -> None:
    kinds = {resource["Type"] for resource in dev.templates["pipeline"]["Resources"].values()}
    assert kinds == {"AWS::IAM::Role", "AWS::IAM::Policy", "AWS::Glue::Job"}


def test_the_script_is_the_file_that_runs_locally(dev: Deployment, job: dict[str, Any]) -> None:
    key = job["Command"]["ScriptLocation"]["Fn::Sub"].split("/")[-1]
    assert uploaded(dev)[key].endswith(".py")


def test_a_job_installs_what_was_uploaded_and_asks_no_index(dev: Deployment, job: dict[str, Any]) -> None:
    """It runs with the rights to the store: what anybody publishes in an index must not run in it."""
    modules = json.dumps(job["DefaultArguments"]["--additional-python-modules"])
    assert "," not in modules.replace('", "', "")
    (key,) = [key for key in uploaded(dev) if key.endswith(".gluewheels.zip")]  # Glue goes by the end of the name
    assert modules.endswith(f'{key}"}}')
    folder, _ = key.split("/")
    assert len(folder) == 64  # the hash of its content: other wheels are another object
    assert job["DefaultArguments"]["--python-modules-installer-option"] == "--no-index"


def test_the_job_gets_what_the_wheel_needs_and_glue_does_not_bring() -> None:
    """Every version of the lock, each with its hashes."""
    requirements = glue_requirements().replace("\\\n", "").splitlines()
    names = {requirement.split("==")[0] for requirement in requirements}
    assert {"numba", "fastavro", "protobuf", "kio", "google-re2"} <= names
    assert not {*PROVIDED_BY_GLUE, "odradek"} & names
    assert [line for line in requirements if "==" not in line or "--hash=sha256:" not in line] == []


def test_every_job_is_one_of_the_folders(dev: Deployment) -> None:
    folders = {path.parent.name for path in (Path(__file__).parents[2] / "glue_jobs").glob("*/job.py")}
    assert set(jobs(dev)) == set(JOBS)
    assert set(JOBS) <= folders


@pytest.mark.parametrize("name", JOBS)
def test_a_job_knows_every_argument_that_it_is_given(dev: Deployment, name: str) -> None:
    arguments = importlib.import_module(f"odradek.glue_jobs.{name}.job").Arguments  # takes pyspark with it
    glues_own = {"job-language", "enable-metrics", "enable-continuous-cloudwatch-log"}
    glues_own |= {"additional-python-modules", "python-modules-installer-option"}
    arguments_given = {name.removeprefix("--") for name in jobs(dev)[name]["DefaultArguments"]} - glues_own
    taken = {spec.name: spec.default for spec in fields(arguments)}
    assert arguments_given <= set(taken)
    assert {
        "log_table",
        "catalog_table",
        "bucket",
        "region",
    } <= arguments_given  # or it would look for an embedded store
    # What is still to be said when a run is started: what is read and written, nothing of the deployment.
    missing = {name for name, default in taken.items() if default is MISSING} - arguments_given
    assert not missing & {"checkpoint_location", "output"}
    if name == "flight_delays":
        assert not missing


@pytest.mark.parametrize("name", [name for name in JOBS if name != COMPACT_TOPIC])
def test_state_and_output_lie_under_the_jobs_own_prefix(dev: Deployment, name: str) -> None:
    arguments = jobs(dev)[name]["DefaultArguments"]
    for argument in ("--checkpoint_location", "--output"):
        text = json.dumps(arguments.get(argument, arguments["--checkpoint_location"]))
        assert "LogBucket" in text
        assert f"/jobs/{name}/" in text


def test_a_role_reads_exactly_the_uploaded_files_of_its_job(dev: Deployment) -> None:
    keys = {key for key in uploaded(dev) if not key.endswith(".json")}  # the template itself is CloudFormation's
    read: set[str] = set()
    for policy in dev.resources("pipeline", "AWS::IAM::Policy").values():
        readable = [
            json.dumps(resource)
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
            for resource in as_list(statement["Resource"])
            if "cdk-" in json.dumps(resource)
        ]
        named = {key for key in keys if any(f"/{key}" in resource for resource in readable)}
        assert len(named) == len(readable) == 2  # its script, the wheels
        assert not [resource for resource in readable if "*" in resource]
        read |= named
    assert read == keys
