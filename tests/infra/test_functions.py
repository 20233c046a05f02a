"""Functions, their URLs, environment, schedule and logs as CloudFormation gets them; the handlers that they name."""

from __future__ import annotations

import ast
import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from odradek.functions import environment
from odradek.limits import FUNCTION_TIMEOUT_S_MAX
from odradek.protocol.api import FunctionName
from odradek.settings import Settings

from infra.stages import STAGES
from tests.infra.conftest import Deployment
from tests.support.counted import at_least

FUNCTIONS = {"produce", "fetch", "coordinator", "admin", "maintenance", "maintainer", "registry"} | {
    "tables",
    "triggers",
    "trigger-dispatcher",
}


def test_every_function_runs_python_3_13_on_arm64_with_the_layer(dev: Deployment) -> None:
    functions = dev.functions()
    assert set(functions) == FUNCTIONS
    for properties in functions.values():
        assert properties["Runtime"] == "python3.13"
        assert properties["Architectures"] == ["arm64"]
        assert len(properties["Layers"]) == 1
    for stack in ("api", "maintenance", "triggers"):
        layer = dev.only(stack, "AWS::Lambda::LayerVersion")["Properties"]
        assert layer["CompatibleRuntimes"] == ["python3.13"]
        assert layer["CompatibleArchitectures"] == ["arm64"]


def test_the_maintainer_alone_gets_what_writes_columnar_history(dev: Deployment, with_tables: Deployment) -> None:
    assert {name: len(function["Layers"]) for name, function in with_tables.functions().items()} == {
        name: 2 if name == "maintainer" else 1 for name in FUNCTIONS
    }
    assert len(with_tables.resources("maintenance", "AWS::Lambda::LayerVersion")) == 2
    assert len(dev.resources("maintenance", "AWS::Lambda::LayerVersion")) == 1
    [error] = with_tables.errors["maintenance"]
    assert "dist/tables.zip" in error
    assert "make package ARGS=--tables" in error


def catalogs(deployment: Deployment) -> dict[str, str]:
    """Return the settings of each function for a catalog of Iceberg tables."""
    variables_by_function = {
        name: function["Environment"]["Variables"] for name, function in deployment.functions().items()
    }
    return {
        name: json.dumps(variables[environment.TABLE_CATALOG])
        for name, variables in variables_by_function.items()
        if environment.TABLE_CATALOG in variables
    }


def test_with_tables_maintenance_keeps_them_in_glues_catalog(dev: Deployment, with_tables: Deployment) -> None:
    assert catalogs(dev) == {}
    catalogs_by_function = catalogs(with_tables)
    assert set(catalogs_by_function) == {"maintenance", "maintainer"}
    for text in catalogs_by_function.values():
        assert "type=glue,warehouse=s3://" in text
        assert "LogBucket" in text
        assert "/iceberg,client.region=" in text
        assert "AWS::Region" in text


def test_the_catalog_of_the_stages_settings_is_the_one(synthesize_stage: Callable[..., Deployment]) -> None:
    own = replace(STAGES["dev"], settings=Settings(table_catalog="type=rest,uri=https://catalog.example"))
    deployment = synthesize_stage(own, tables=True)
    assert catalogs(deployment) == dict.fromkeys(FUNCTIONS, '"type=rest,uri=https://catalog.example"')
    policies = json.dumps(deployment.resources("maintenance", "AWS::IAM::Policy"))
    assert "glue:" not in policies, "no rights on a catalog that is not used"
    assert "/iceberg/" not in policies


def test_every_handler_string_names_a_handler_in_lambdas(dev: Deployment) -> None:
    for name, properties in at_least(len(FUNCTIONS), dev.functions().items()):
        module, _, attribute = properties["Handler"].rpartition(".")
        assert module == f"lambdas.{name.replace('-', '_')}.handler"
        spec = importlib.util.find_spec(module)
        assert spec is not None, f"{module} does not exist"
        assert spec.origin is not None
        # Importing it would wire a function to AWS: look at what it defines instead.
        with open(spec.origin) as source:
            tree = ast.parse(source.read())
        defined = {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets}  # type: ignore[attr-defined]
        defined |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert attribute in defined


def test_every_function_finds_all_that_it_requires_in_its_environment(dev: Deployment) -> None:
    by_lambda = {environment.REGION}
    for name, properties in at_least(len(FUNCTIONS), dev.functions().items()):
        variables = properties["Environment"]["Variables"]
        assert set(environment.REQUIRED) - by_lambda <= set(variables), name
        assert "TablesLog" in json.dumps(variables[environment.LOG_TABLE])
        assert "TablesGroups" in json.dumps(variables[environment.GROUPS_TABLE])
        assert "TablesCatalog" in json.dumps(variables[environment.CATALOG_TABLE])
        assert "LogBucket" in json.dumps(variables[environment.BUCKET])
        assert environment.ENDPOINT_URL not in variables


def test_the_environment_reads_back_as_the_stage_was_written(dev: Deployment) -> None:
    for properties in at_least(len(FUNCTIONS), dev.functions().values()):
        texts = {key: value for key, value in properties["Environment"]["Variables"].items() if isinstance(value, str)}
        assert Settings.from_env(texts) == STAGES["dev"].settings


def test_the_coordinator_knows_its_siblings_and_nobody_else_does(dev: Deployment) -> None:
    for name, properties in dev.functions().items():
        urls = properties["Environment"]["Variables"].get(environment.FUNCTION_URLS)
        assert (urls is not None) == (name == "coordinator")
    joined = dev.functions()["coordinator"]["Environment"]["Variables"][environment.FUNCTION_URLS]["Fn::Join"][1]
    urls = "".join(part if isinstance(part, str) else f"https://{part['Fn::GetAtt'][0]}/" for part in joined)
    siblings = environment.parse_function_urls(urls)
    assert "Registry" in json.dumps(
        dev.functions()["coordinator"]["Environment"]["Variables"][environment.REGISTRY_URL]
    )
    assert set(siblings) == set(FunctionName) - {FunctionName.COORDINATOR}
    for name, url in siblings.items():
        assert name.value.capitalize() in url


def test_urls_ask_for_a_signature(dev: Deployment) -> None:
    urls = dev.resources("api", "AWS::Lambda::Url")
    assert len(urls) == 7
    for url in urls.values():
        assert url["Properties"]["AuthType"] == "AWS_IAM"
        assert url["Properties"]["InvokeMode"] == "BUFFERED"
        assert "Cors" not in url["Properties"]
        assert url["Properties"]["Qualifier"] == "live", "a deployment moves what the URL names"
    # No resource policy lets anyone in: who may call is said on the caller's side alone.
    assert not dev.resources("api", "AWS::Lambda::Permission")
    assert not dev.resources("maintenance", "AWS::Lambda::Url")


def test_a_function_outlives_its_own_request_timeout(dev: Deployment) -> None:
    for name, properties in at_least(len(FUNCTIONS), dev.functions().items()):
        assert properties["Timeout"] <= FUNCTION_TIMEOUT_S_MAX
        if name not in ("maintenance", "maintainer"):
            assert properties["Timeout"] * 1000 > STAGES["dev"].settings.request_timeout_ms


@pytest.mark.parametrize(("stage", "days"), [("dev", 7), ("prod", 90)])
def test_logs_are_kept_for_a_while_and_then_dropped(stage: str, days: int, request: pytest.FixtureRequest) -> None:
    deployment: Deployment = request.getfixturevalue(stage)
    groups = [
        group["Properties"]
        for stack in ("api", "maintenance", "triggers")
        for group in deployment.resources(stack, "AWS::Logs::LogGroup").values()
    ]
    assert [group["RetentionInDays"] for group in groups] == [days] * 10
    for properties in deployment.functions().values():
        assert "Logs" in properties["LoggingConfig"]["LogGroup"]["Ref"]


def test_maintenance_is_called_by_the_clock(dev: Deployment) -> None:
    rule = dev.only("maintenance", "AWS::Events::Rule")["Properties"]
    assert rule["ScheduleExpression"] == "rate(15 minutes)"
    assert rule["State"] == "ENABLED"
    (target,) = rule["Targets"]
    assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 900, "MaximumRetryAttempts": 2}
    permission = dev.only("maintenance", "AWS::Lambda::Permission")["Properties"]
    assert permission["Principal"] == "events.amazonaws.com"
    assert "SourceArn" in permission  # this rule only


def test_the_maintainer_is_called_by_the_queue_that_maintenance_sends_to(dev: Deployment, prod: Deployment) -> None:
    mapping = dev.only("maintenance", "AWS::Lambda::EventSourceMapping")["Properties"]
    assert "MaintainerFunction" in mapping["FunctionName"]["Ref"]
    assert mapping["BatchSize"] == 10
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 2}
    busier = prod.only("maintenance", "AWS::Lambda::EventSourceMapping")["Properties"]
    assert busier["ScalingConfig"] == {"MaximumConcurrency": 60}
    queue = mapping["EventSourceArn"]["Fn::GetAtt"][0]
    for name, properties in dev.functions().items():
        queue_variable = properties["Environment"]["Variables"].get(environment.QUEUE_URL)
        assert queue_variable == ({"Ref": queue} if name == "maintenance" else None)


def test_a_task_that_is_not_done_comes_again_and_ends_in_the_dead_letters(dev: Deployment) -> None:
    queues = dev.resources("maintenance", "AWS::SQS::Queue")
    [(key, queue)] = [
        (k, queue_resource["Properties"])
        for k, queue_resource in queues.items()
        if "RedrivePolicy" in queue_resource["Properties"]
    ]
    dead = queues[queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]]["Properties"]
    assert queue["VisibilityTimeout"] == 6 * dev.functions()["maintainer"]["Timeout"]
    receptions = queue["RedrivePolicy"]["maxReceiveCount"]
    assert queue["MessageRetentionPeriod"] > receptions * queue["VisibilityTimeout"], "or nothing would get there"
    assert dead["MessageRetentionPeriod"] == 14 * 86_400
    assert (queue["SqsManagedSseEnabled"], dead["SqsManagedSseEnabled"]) == (True, True)
    denied = {
        policy["Properties"]["Queues"][0]["Ref"]: policy["Properties"]["PolicyDocument"]["Statement"][0]
        for policy in dev.resources("maintenance", "AWS::SQS::QueuePolicy").values()
    }
    assert set(denied) == set(queues) >= {key}
    for statement in denied.values():
        assert statement["Effect"] == "Deny"
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_a_stage_whose_queue_would_ask_for_more_maintainers_than_it_may_have_is_refused() -> None:
    for change in ({"maintenance_workers": 1}, {"maintenance_workers": 5, "reserved_concurrency": {"maintainer": 4}}):
        with pytest.raises(ValueError, match="maintenance_workers"):
            replace(STAGES["dev"], **change)  # type: ignore[arg-type]


def test_outputs_name_every_url_and_the_policy_for_clients(dev: Deployment) -> None:
    named = {"ProduceUrl", "FetchUrl", "CoordinatorUrl", "AdminUrl", "RegistryUrl", "ClientPolicyArn"}
    assert named <= set(dev.templates["api"]["Outputs"])
