"""Least privilege: every role names its tables, prefixes and actions, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from infra.permissions import JOBS
from tests.infra.conftest import Deployment, as_list
from tests.support.counted import at_least

Statement = dict[str, Any]

# Statements whose resource must be "*": the action, and why.
WITHOUT_RESOURCE = {
    "cloudwatch:PutMetricData": "the action knows no resources; a condition on the namespace narrows it",
}

JOB_TITLES = {"".join(word.capitalize() for word in job.split("_")): job for job in JOBS}
ALL_TABLES = ("TablesLog", "TablesGroups", "TablesCatalog", "TablesRows")
TABLES = {
    "Produce": {"TablesLog", "TablesCatalog"},
    "Fetch": {"TablesLog", "TablesCatalog"},
    "Coordinator": {"TablesLog", "TablesGroups", "TablesCatalog"},  # commits transactions
    "Admin": {"TablesLog", "TablesCatalog"},
    "Registry": {"TablesCatalog"},
    "Triggers": {"TablesLog", "TablesGroups", "TablesCatalog"},
    "Tables": {"TablesLog", "TablesCatalog", "TablesRows"},
    "Dispatcher": {"TablesLog", "TablesGroups", "TablesCatalog", "TablesRows"},
    "Maintenance": {"TablesLog", "TablesGroups", "TablesCatalog", "TablesRows"},  # the lag of groups
    "Maintainer": {"TablesLog", "TablesGroups", "TablesCatalog"},  # windows of deleted topics
} | {title: {"TablesLog", "TablesCatalog"} for title in JOB_TITLES}


def statements(deployment: Deployment) -> Iterator[tuple[str, Statement]]:
    """Every statement that gives a role of ours something, with the name of its role."""
    for stack in deployment.templates:
        policies = deployment.resources(stack, "AWS::IAM::Policy")
        for key, policy in (policies | deployment.resources(stack, "AWS::IAM::ManagedPolicy")).items():
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                assert statement["Effect"] == "Allow"
                yield key.split("Access")[0], statement


def test_no_action_has_a_wildcard(dev: Deployment) -> None:
    all_statements = list(statements(dev))
    assert len(all_statements) > 20
    for role, statement in all_statements:
        assert not [action for action in as_list(statement["Action"]) if "*" in action], (role, statement)
        assert "NotAction" not in statement
        assert "NotResource" not in statement


def test_no_resource_is_everything_without_a_reason(dev: Deployment) -> None:
    for role, statement in at_least(20, statements(dev)):
        if "*" in as_list(statement["Resource"]):
            assert set(as_list(statement["Action"])) <= set(WITHOUT_RESOURCE), (role, statement)
            assert statement["Condition"], (role, statement)


def test_no_role_gets_a_policy_that_aws_wrote(dev: Deployment) -> None:
    roles = [role for stack in dev.templates for role in dev.resources(stack, "AWS::IAM::Role").values()]
    assert [role for role in at_least(10, roles) if "ManagedPolicyArns" in role["Properties"]] == []


def test_a_role_is_assumed_by_its_service_only(dev: Deployment) -> None:
    services = {}
    for stack in dev.templates:
        for key, role in dev.resources(stack, "AWS::IAM::Role").items():
            (statement,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
            services[key.split("Access")[0]] = statement["Principal"]
    lambda_, glue = {"Service": "lambda.amazonaws.com"}, {"Service": "glue.amazonaws.com"}
    assert services == {role: glue if role in JOB_TITLES else lambda_ for role in TABLES}


def test_a_role_names_only_its_own_tables(dev: Deployment) -> None:
    named: dict[str, set[str]] = {}
    for role, statement in statements(dev):
        if any(action.startswith("dynamodb:") for action in as_list(statement["Action"])):
            for resource in as_list(statement["Resource"]):
                text = json.dumps(resource)
                assert text.endswith('"}'), text  # an import of one table's ARN, with nothing joined to it
                named.setdefault(role, set()).update(table_name for table_name in ALL_TABLES if table_name in text)
    assert named == TABLES


def test_a_role_names_prefixes_of_the_bucket(dev: Deployment) -> None:
    prefixes: dict[tuple[str, str], set[str]] = {}
    for role, statement in statements(dev):
        for action in as_list(statement["Action"]):
            for resource in as_list(statement["Resource"]):
                if action.startswith("s3:") and "LogBucket" in json.dumps(resource):
                    prefix = resource["Fn::Join"][1][-1] if "Fn::Join" in resource else ""
                    prefixes.setdefault((role, action), set()).add(prefix)
    log = {"/wal/*", "/topics/*"}
    jobs = {}
    for title, job in JOB_TITLES.items():
        own = f"/jobs/{job}/*"
        jobs |= {
            (title, "s3:GetObject"): log | {own},
            (title, "s3:PutObject"): {"/wal/*", own},
            (title, "s3:DeleteObject"): {own},
            (title, "s3:ListBucket"): {""},
        }
    jobs["CompactTopic", "s3:PutObject"].add("/topics/*")  # segments in the place of others
    jobs["CompactTopic", "s3:DeleteObject"].add("/topics/*")
    assert prefixes == jobs | {
        ("Produce", "s3:PutObject"): {"/wal/*"},
        ("Fetch", "s3:GetObject"): log,
        ("Fetch", "s3:ListBucket"): {""},
        ("Coordinator", "s3:GetObject"): log,  # share groups: records and dead letters
        ("Coordinator", "s3:PutObject"): {"/wal/*"},
        ("Coordinator", "s3:ListBucket"): {""},
        ("Triggers", "s3:GetObject"): log,
        ("Triggers", "s3:ListBucket"): {""},
        ("Tables", "s3:GetObject"): log,
        ("Tables", "s3:ListBucket"): {""},
        ("Dispatcher", "s3:GetObject"): log,
        ("Dispatcher", "s3:PutObject"): {"/wal/*"},  # topics for records that are given up
        ("Dispatcher", "s3:ListBucket"): {""},
        ("Maintenance", "s3:GetObject"): {"/topics/*"},  # the age of what compaction would clean
        ("Maintenance", "s3:ListBucket"): {""},
        ("Maintainer", "s3:DeleteObject"): log,
        ("Maintainer", "s3:GetObject"): log,
        ("Maintainer", "s3:PutObject"): {"/topics/*"},
        ("Maintainer", "s3:ListBucket"): {""},
    }


def test_one_function_sends_tasks_and_another_takes_them(dev: Deployment) -> None:
    queues_by_role = {
        (role, action): resource
        for role, statement in statements(dev)
        for action in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
        if action.startswith("sqs:") and "-triggers" not in json.dumps(resource)
    }
    assert set(queues_by_role) == {
        ("Maintenance", "sqs:SendMessage"),
        ("Maintenance", "sqs:GetQueueAttributes"),
        ("Maintainer", "sqs:ReceiveMessage"),
        ("Maintainer", "sqs:DeleteMessage"),
        ("Maintainer", "sqs:GetQueueAttributes"),
    }
    [queue] = {json.dumps(resource) for resource in queues_by_role.values()}
    assert "QueueTasks" in queue


def test_who_appends_or_looks_for_what_waits_may_wake_triggers_and_one_function_is_woken(dev: Deployment) -> None:
    actions_by_role: dict[str, set[str]] = {}
    for role, statement in statements(dev):
        if any("-triggers" in json.dumps(resource) for resource in as_list(statement["Resource"])):
            actions_by_role.setdefault(role, set()).update(as_list(statement["Action"]))
    senders = {role: {"sqs:SendMessage"} for role in ("Produce", "Coordinator", "Triggers", "Tables", "Maintenance")}
    received = {"sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}
    assert actions_by_role == {**senders, "Dispatcher": received}


def test_the_dispatcher_may_call_nothing_until_a_trigger_grants_it(dev: Deployment) -> None:
    actions = [action for role, one in statements(dev) if role == "Dispatcher" for action in as_list(one["Action"])]
    assert [action for action in at_least(5, actions) if action.startswith("lambda:")] == []


def test_the_function_that_plans_changes_nothing(dev: Deployment) -> None:
    actions = [action for role, one in statements(dev) if role == "Maintenance" for action in as_list(one["Action"])]
    writes = ("dynamodb:Put", "dynamodb:Update", "dynamodb:Delete", "s3:Put", "s3:Del")
    assert [action for action in at_least(3, actions) if action.startswith(writes)] == []


def test_the_coordinator_updates_counters_and_the_topics_that_grow(dev: Deployment) -> None:
    updates = [
        statement
        for role, statement in statements(dev)
        if role == "Coordinator"
        and "TablesCatalog" in json.dumps(statement["Resource"])
        and "dynamodb:UpdateItem" in as_list(statement["Action"])
    ]
    keys = [update["Condition"]["ForAllValues:StringEquals"]["dynamodb:LeadingKeys"] for update in updates]
    assert sorted(keys) == [["counters"], ["topics"]]
    assert {json.dumps(update["Action"]) for update in updates} == {'"dynamodb:UpdateItem"'}


def test_the_registry_writes_its_own_rows_of_the_catalog_alone(dev: Deployment) -> None:
    own = {"registry", "registry-configs", "registry-subjects", "registry-schemas", "registry-guids"}
    writing = [
        statement
        for role, statement in statements(dev)
        if role == "Registry" and {"dynamodb:PutItem", "dynamodb:UpdateItem"} & set(as_list(statement["Action"]))
    ]
    for statement in at_least(1, writing):
        assert set(statement["Condition"]["ForAllValues:StringEquals"]["dynamodb:LeadingKeys"]) <= own


def test_clients_may_call_urls_and_nothing_else(dev: Deployment) -> None:
    (policy,) = dev.resources("api", "AWS::IAM::ManagedPolicy").values()
    by_action = {statement["Action"]: statement for statement in policy["Properties"]["PolicyDocument"]["Statement"]}
    assert set(by_action) == {"lambda:InvokeFunctionUrl", "lambda:InvokeFunction"}
    for statement in by_action.values():
        aliases, functions = dev.resources("api", "AWS::Lambda::Alias"), dev.resources("api", "AWS::Lambda::Function")
        named = {arn.get("Ref") or arn["Fn::GetAtt"][0] for arn in statement["Resource"]}
        assert named == {*aliases, *functions}
        assert len(aliases) == len(functions) == 7
    # Directly invoked, a function would take any event; by its URL it takes signed requests.
    assert by_action["lambda:InvokeFunction"]["Condition"] == {"Bool": {"lambda:InvokedViaFunctionUrl": "true"}}


def database_rights(deployment: Deployment) -> dict[str, tuple[set[str], set[str]]]:
    """The actions on Glue's data catalog by role, and on which databases and tables."""
    rights = {}
    for role, statement in statements(deployment):
        actions = set(as_list(statement["Action"]))
        if any(action.startswith("glue:") for action in actions):
            texts = ["".join(map(str, arn["Fn::Join"][1])) for arn in as_list(statement["Resource"])]
            rights[role] = actions, {text.rpartition(":")[2] for text in texts}
    return rights


def test_only_the_export_writes_tables_of_the_data_catalog(dev: Deployment) -> None:
    rights = database_rights(dev)
    assert set(rights) == {"ExportTable"}
    assert rights["ExportTable"][1] == {"catalog", "database/odradek_*", "table/odradek_*/*"}


def test_a_maintainer_that_keeps_tables_may_do_so_in_its_databases_alone(with_tables: Deployment) -> None:
    rights = database_rights(with_tables)
    assert set(rights) == {"ExportTable", "Maintainer"}
    actions, resources = rights["Maintainer"]
    own = {f"{resource_type}/odradek{name_rest}" for resource_type, name_rest in (("database", ""), ("table", "/*"))}
    assert resources == {"catalog", "database/odradek_*", "table/odradek_*/*", *own}
    assert actions == {
        f"glue:{action_name}" for action_name in ("GetDatabase", "CreateDatabase", "GetTable", "CreateTable")
    } | {
        "glue:UpdateTable",
        "glue:DeleteTable",
    }
    metadata = {
        action
        for role, statement in statements(with_tables)
        if role == "Maintainer" and "/iceberg/*" in json.dumps(statement["Resource"])
        for action in as_list(statement["Action"])
    }
    assert metadata == {"s3:GetObject", "s3:PutObject", "s3:DeleteObject"}
