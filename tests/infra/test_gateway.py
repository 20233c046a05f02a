"""The optional gateway stack: only by context, with TLS, logins and the union of the functions' rights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from odradek.functions.environment import REGISTRY
from odradek.protocol.api import FunctionName

from infra.permissions import GATEWAY, PERMISSIONS
from tests.infra.conftest import GATEWAY_CONTEXT, Deployment, as_list
from tests.support.counted import at_least


def test_there_is_none_unless_it_is_asked_for(prod: Deployment) -> None:
    assert "gateway" not in prod.templates


def test_half_a_gateway_is_refused(with_gateway: Callable[..., Deployment]) -> None:
    with pytest.raises(SystemExit, match="gateway_tls_secret_arn"):
        with_gateway({"gateway_vpc_id": "vpc-1", "gateway_subnet_ids": "subnet-1"})


def test_clients_come_over_tls_and_log_in(gateway: Deployment) -> None:
    [container] = gateway.only("gateway", "AWS::ECS::TaskDefinition")["Properties"]["ContainerDefinitions"]
    variables = {variable["Name"]: variable["Value"] for variable in container["Environment"]}
    assert variables["ODRADEK_GATEWAY_SASL"] == "true"
    assert variables["ODRADEK_GATEWAY_METRICS"] == "emf"
    assert variables["ODRADEK_GATEWAY_ADVERTISED"] == "kafka.example.com:9092"
    assert {"ODRADEK_LOG_TABLE", "ODRADEK_BUCKET", "ODRADEK_CLUSTER_ID"} <= set(variables)
    secrets = {secret["Name"]: secret["ValueFrom"] for secret in container["Secrets"]}
    assert secrets["ODRADEK_GATEWAY_TLS_CERT_PEM"] == GATEWAY_CONTEXT["gateway_tls_secret_arn"] + ":certificate::"
    assert "PRIVATE KEY" not in json.dumps(gateway.templates["gateway"])
    listeners = gateway.resources("gateway", "AWS::ElasticLoadBalancingV2::Listener").values()
    assert {listener["Properties"]["Port"] for listener in listeners} == {9092, 8081}
    balancer = gateway.only("gateway", "AWS::ElasticLoadBalancingV2::LoadBalancer")["Properties"]
    assert (balancer["Scheme"], balancer["Type"]) == ("internal", "network")


def test_a_gateway_that_stops_finishes_first(gateway: Deployment) -> None:
    service = gateway.only("gateway", "AWS::ECS::Service")["Properties"]
    assert service["DesiredCount"] == 2
    assert service["NetworkConfiguration"]["AwsvpcConfiguration"]["AssignPublicIp"] == "DISABLED"
    for group in gateway.resources("gateway", "AWS::ElasticLoadBalancingV2::TargetGroup").values():
        assert group["Properties"]["HealthCheckPort"] == "8080"


@pytest.mark.parametrize(
    ("more", "crosses"),
    [({}, "true"), ({"gateway_zonal": "true"}, "false"), ({"gateway_brokers": "2"}, "true")],
    ids=["tasks", "zonal", "brokers"],
)
def test_clients_meet_the_balancer_in_their_own_zone(
    with_gateway: Callable[..., Deployment], more: dict[str, str], crosses: str
) -> None:
    """From there a connection may go to another zone, unless `gateway_zonal` says that none does: that is billed."""
    deployment = with_gateway({**GATEWAY_CONTEXT, **more})
    balancer = deployment.only("gateway", "AWS::ElasticLoadBalancingV2::LoadBalancer")["Properties"]
    attributes = {attribute["Key"]: attribute["Value"] for attribute in balancer["LoadBalancerAttributes"]}
    assert attributes["dns_record.client_routing_policy"] == "availability_zone_affinity"
    assert attributes["load_balancing.cross_zone.enabled"] == crosses
    for group in deployment.resources("gateway", "AWS::ElasticLoadBalancingV2::TargetGroup").values():
        keys = {attribute["Key"] for attribute in group["Properties"]["TargetGroupAttributes"]}
        assert "load_balancing.cross_zone.enabled" not in keys, "the balancer's holds for all of its ports"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"gateway_brokers": "2"}, "leave gateway_brokers out"),
        ({"gateway_tasks": "1"}, "gateway_tasks must be at least 2, the number of subnets, not 1"),
    ],
)
def test_a_zone_without_a_task_of_its_own_is_refused(
    with_gateway: Callable[..., Deployment], more: dict[str, str], message: str
) -> None:
    with pytest.raises(SystemExit, match=message):
        with_gateway({**GATEWAY_CONTEXT, "gateway_zonal": "true", **more})


def test_its_appends_wake_triggers(gateway: Deployment) -> None:
    [container] = gateway.only("gateway", "AWS::ECS::TaskDefinition")["Properties"]["ContainerDefinitions"]
    [url] = [variable["Value"] for variable in container["Environment"] if variable["Name"] == "ODRADEK_WAKE_QUEUE_URL"]
    assert url["Fn::Join"][1][-1] == "/odradek-prod-triggers"
    statements = [
        statement
        for policy in gateway.resources("gateway", "AWS::IAM::Policy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Action"] == "sqs:SendMessage"
    ]
    assert len(statements) == 1
    assert statements[0]["Resource"]["Fn::Join"][1][-1] == ":odradek-prod-triggers"


def test_its_rights_are_the_functions_rights_and_no_more() -> None:
    rows = [PERMISSIONS[name] for name in (*(function.value for function in FunctionName), REGISTRY)]
    granted = PERMISSIONS[GATEWAY]

    def grants(row: Any) -> set[tuple[str, str, str]]:
        tables = {
            (grant.table.value, action, key)
            for grant in row.tables
            for action in grant.actions
            for key in grant.partition_keys or ("*",)
        }
        return tables | {("objects", a, p) for grant in row.objects for a in grant.actions for p in grant.prefixes}

    wanted = set().union(*map(grants, rows))
    open_ = {(table, action) for table, action, key in wanted if key == "*"}
    assert grants(granted) == {grant for grant in wanted if grant[2] == "*" or grant[:2] not in open_}


def test_no_statement_is_for_everything_but_the_registry_of_images(gateway: Deployment) -> None:
    for policy in at_least(2, gateway.resources("gateway", "AWS::IAM::Policy").values()):
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            if "*" in as_list(statement["Resource"]):
                assert statement["Action"] == "ecr:GetAuthorizationToken"


def test_the_image_has_the_locks_versions() -> None:
    from infra.gateway_image import constraints

    lines = constraints().splitlines()
    assert any(line.startswith("kio==") for line in lines)
    assert not any(line.startswith("odradek") for line in lines)


def test_the_image_is_built_of_a_digest(tmp_path: Path, with_gateway: Callable[..., Deployment]) -> None:
    """A tag is not one image; what is given must be."""
    from infra.artifacts import Artifacts
    from infra.gateway_image import image_directory

    pinned = "public.ecr.aws/docker/library/python@sha256:" + "0123456789abcdef" * 4
    folder = image_directory(Artifacts.find(tmp_path), pinned)
    assert (folder / "Dockerfile").read_text().startswith(f"FROM {pinned}\n")
    with pytest.raises(SystemExit, match="name@sha256:digest"):
        with_gateway({**GATEWAY_CONTEXT, "gateway_base_image": "python:3.13-slim"})


def test_gateways_scale_by_their_processors_and_by_their_connections(
    optioned_gateway: Deployment, gateway: Deployment
) -> None:
    policies = optioned_gateway.resources("gateway", "AWS::ApplicationAutoScaling::ScalingPolicy").values()
    tracked = [policy["Properties"]["TargetTrackingScalingPolicyConfiguration"] for policy in policies]
    [connections] = [tracking for tracking in tracked if "CustomizedMetricSpecification" in tracking]
    [cpu] = [tracking for tracking in tracked if "PredefinedMetricSpecification" in tracking]
    assert cpu["PredefinedMetricSpecification"] == {"PredefinedMetricType": "ECSServiceAverageCPUUtilization"}
    assert cpu["TargetValue"] == 60
    metric = connections["CustomizedMetricSpecification"]
    assert (metric["Namespace"], metric["MetricName"], metric["Statistic"]) == ("Odradek", "connections", "Average")
    assert connections["TargetValue"] < 2_000, "before new ones are refused"
    assert not gateway.resources("gateway", "AWS::ApplicationAutoScaling::ScalingPolicy")


# --- brokers that share the partitions ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def brokers(with_gateway: Callable[..., Deployment]) -> Deployment:
    return with_gateway({**GATEWAY_CONTEXT, "gateway_brokers": "3"})


def variables_of(task: dict[str, Any]) -> dict[str, Any]:
    [container] = task["Properties"]["ContainerDefinitions"]
    return {variable["Name"]: variable["Value"] for variable in container["Environment"]}


def test_each_broker_has_an_id_and_an_address_that_reaches_it_alone(brokers: Deployment) -> None:
    tasks = brokers.resources("gateway", "AWS::ECS::TaskDefinition")
    ports: dict[int, str] = {}  # of the balancer, to a target group
    for listener in brokers.resources("gateway", "AWS::ElasticLoadBalancingV2::Listener").values():
        [action] = listener["Properties"]["DefaultActions"]
        ports[listener["Properties"]["Port"]] = action["TargetGroupArn"]["Ref"]
    assert sorted(ports) == [8081, 9092, 9101, 9102, 9103]
    behind: dict[str, set[str]] = {}  # a target group: broker ids
    for service in brokers.resources("gateway", "AWS::ECS::Service").values():
        variables = variables_of(tasks[service["Properties"]["TaskDefinition"]["Ref"]])
        for balancer in service["Properties"]["LoadBalancers"]:
            behind.setdefault(balancer["TargetGroupArn"]["Ref"], set()).add(variables["ODRADEK_GATEWAY_BROKER_ID"])
    for task in tasks.values():
        variables = variables_of(task)
        host, _, port = variables["ODRADEK_GATEWAY_ADVERTISED"].partition(":")
        assert host == "kafka.example.com"
        assert behind[ports[int(port)]] == {variables["ODRADEK_GATEWAY_BROKER_ID"]}
    assert behind[ports[9092]] == behind[ports[8081]] == {"1", "2", "3"}, "any of them bootstraps a client"


def test_a_deployment_replaces_one_broker_after_the_other(brokers: Deployment) -> None:
    """An id has one holder, so a new task can only start when the old one has gone."""
    services = brokers.resources("gateway", "AWS::ECS::Service")
    for service in services.values():
        configuration = service["Properties"]["DeploymentConfiguration"]
        assert (configuration["MinimumHealthyPercent"], configuration["MaximumPercent"]) == (0, 100)
        assert service["Properties"]["DesiredCount"] == 1
    waits_for = {name: set(service["DependsOn"]) & set(services) for name, service in services.items()}
    assert sorted(len(awaited) for awaited in waits_for.values()) == [0, 1, 1]
    assert len(set().union(*waits_for.values())) == 2, "a chain"


def test_brokers_stand_in_different_subnets(brokers: Deployment) -> None:
    subnets = [
        service["Properties"]["NetworkConfiguration"]["AwsvpcConfiguration"]["Subnets"]
        for service in brokers.resources("gateway", "AWS::ECS::Service").values()
    ]
    assert all(len(broker_subnets) == 1 for broker_subnets in subnets)
    assert len({broker_subnets[0] for broker_subnets in subnets}) == 2, "as many as there are"


def test_a_task_drains_before_it_is_killed(brokers: Deployment, gateway: Deployment) -> None:
    for deployment in (brokers, gateway):
        for task in deployment.resources("gateway", "AWS::ECS::TaskDefinition").values():
            [container] = task["Properties"]["ContainerDefinitions"]
            assert int(variables_of(task)["ODRADEK_GATEWAY_DRAIN_MS"]) < 1000 * container["StopTimeout"]


@pytest.mark.parametrize(
    ("more", "size", "buffered_mib"),
    [({}, ("1024", "2048"), 512), ({"gateway_cpu": "256", "gateway_memory_mb": "1024"}, ("256", "1024"), 256)],
)
def test_a_task_has_the_size_that_is_asked_for(
    with_gateway: Callable[..., Deployment], more: dict[str, str], size: tuple[str, str], buffered_mib: int
) -> None:
    task = with_gateway({**GATEWAY_CONTEXT, **more}).only("gateway", "AWS::ECS::TaskDefinition")
    assert (task["Properties"]["Cpu"], task["Properties"]["Memory"]) == size
    assert variables_of(task)["ODRADEK_GATEWAY_BUFFERED_BYTES_MAX"] == str(buffered_mib * 1024 * 1024)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"gateway_brokers": "3", "gateway_tasks": "2"}, "gateway_tasks"),
        ({"gateway_brokers": "41"}, "at most 40"),
        ({"gateway_brokers": "many"}, "must be a number"),
    ],
)
def test_brokers_that_cannot_be_are_refused(
    with_gateway: Callable[..., Deployment], more: dict[str, str], message: str
) -> None:
    with pytest.raises(SystemExit, match=message):
        with_gateway({**GATEWAY_CONTEXT, **more})
