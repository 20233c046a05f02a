"""A packet's way through the gateway stack's template: client, listener, security groups, target group, health check,
task, and from there to AWS."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.infra.conftest import GATEWAY_CONTEXT, Deployment

CLIENT, STRANGER, AWS_ADDRESS = "192.0.2.77", "198.51.100.1", "203.0.113.5"


@dataclass(frozen=True)
class Rule:
    """One rule of a security group: the other side is addresses, or the holders of a group."""

    group: str
    direction: str
    first_port: int
    last_port: int
    cidr: str | None
    peer: str | None


def group_of(reference: Any) -> str:
    """The logical id in {"Fn::GetAtt": [id, "GroupId"]}."""
    logical_id, attribute = reference["Fn::GetAtt"]
    assert attribute == "GroupId"
    return str(logical_id)


def rules(deployment: Deployment) -> Iterator[Rule]:
    """All rules, written in the group itself or as resources of their own."""
    for group, resource in deployment.resources("gateway", "AWS::EC2::SecurityGroup").items():
        for direction in ("Ingress", "Egress"):
            for rule in resource["Properties"].get(f"SecurityGroup{direction}", ()):
                yield _rule(group, direction, rule, None)
    for direction, peer in (("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId")):
        for resource in deployment.resources("gateway", f"AWS::EC2::SecurityGroup{direction}").values():
            properties = resource["Properties"]
            yield _rule(group_of(properties["GroupId"]), direction, properties, group_of(properties[peer]))


def _rule(group: str, direction: str, rule: dict[str, Any], peer: str | None) -> Rule:
    whole = rule["IpProtocol"] == "-1"
    ports = (0, 65_535) if whole else (rule.get("FromPort"), rule.get("ToPort"))
    if rule["IpProtocol"] not in ("tcp", "-1"):
        ports = (1, 0)  # the rule that CDK writes for "nothing": ICMP to a broadcast address
    assert ports[0] is not None
    assert ports[1] is not None
    return Rule(group, direction, ports[0], ports[1], rule.get("CidrIp"), peer)


def lets(deployment: Deployment, group: str, direction: str, port: int, other: str) -> bool:
    """Return True if a group lets a connection in, or out: `other` is an address, or the group of the other side."""

    def matches(rule: Rule) -> bool:
        if (rule.group, rule.direction) != (group, direction) or not rule.first_port <= port <= rule.last_port:
            return False
        if other[0].isdigit():
            return rule.cidr is not None and ipaddress.ip_address(other) in ipaddress.ip_network(rule.cidr)
        return rule.peer == other

    return any(map(matches, rules(deployment)))


def test_a_client_reaches_a_task_and_so_does_the_health_check(gateway: Deployment) -> None:
    balancer_id, balancer = only(gateway, "AWS::ElasticLoadBalancingV2::LoadBalancer")
    _, service = only(gateway, "AWS::ECS::Service")
    _, task = only(gateway, "AWS::ECS::TaskDefinition")
    [front] = map(group_of, balancer["SecurityGroups"])
    [behind] = map(group_of, service["NetworkConfiguration"]["AwsvpcConfiguration"]["SecurityGroups"])
    [container] = task["ContainerDefinitions"]
    mapped = {mapping["ContainerPort"] for mapping in container["PortMappings"]}
    variables = {variable["Name"]: variable["Value"] for variable in container["Environment"]}
    listens = {
        int(variables["ODRADEK_GATEWAY_LISTEN"].rpartition(":")[2]),
        int(variables["ODRADEK_GATEWAY_REGISTRY_LISTEN"].rpartition(":")[2]),
    }
    health_port = int(variables["ODRADEK_GATEWAY_HEALTH_PORT"])
    registered = {balancer["TargetGroupArn"]["Ref"]: balancer for balancer in service["LoadBalancers"]}
    groups = gateway.resources("gateway", "AWS::ElasticLoadBalancingV2::TargetGroup")
    reached = set()
    for listener in gateway.resources("gateway", "AWS::ElasticLoadBalancingV2::Listener").values():
        properties = listener["Properties"]
        assert properties["LoadBalancerArn"] == {"Ref": balancer_id}
        port = properties["Port"]
        assert lets(gateway, front, "Ingress", port, CLIENT), f"the balancer's group refuses clients on {port}"
        assert not lets(gateway, front, "Ingress", port, STRANGER)
        [action] = properties["DefaultActions"]
        name = action["TargetGroupArn"]["Ref"]
        target = groups[name]["Properties"]
        assert target["TargetType"] == "ip"
        assert (registered[name]["ContainerName"], registered[name]["ContainerPort"]) == ("gateway", target["Port"])
        assert target["Port"] in mapped & listens
        assert (target["HealthCheckProtocol"], int(target["HealthCheckPort"])) == ("HTTP", health_port)
        assert health_port in mapped
        for inner, traffic in ((target["Port"], "traffic"), (health_port, "health checks")):
            assert lets(gateway, front, "Egress", inner, behind), f"the balancer's group keeps {traffic} in"
            assert lets(gateway, behind, "Ingress", inner, front), f"the tasks' group refuses {traffic}"
        # A target sees the client's address; its group still goes by the balancer's, and nobody goes round it.
        assert {"Key": "preserve_client_ip.enabled", "Value": "true"} in target["TargetGroupAttributes"]
        assert not lets(gateway, behind, "Ingress", target["Port"], CLIENT)
        reached.add(port)
    assert reached == listens == {9092, 8081}
    assert lets(gateway, behind, "Egress", 443, AWS_ADDRESS), "a task reaches no service of AWS"
    assert not lets(gateway, behind, "Egress", 22, AWS_ADDRESS)


def only(deployment: Deployment, resource_type: str) -> tuple[str, dict[str, Any]]:
    """The one resource of that type: its logical id and properties."""
    [(key, resource)] = deployment.resources("gateway", resource_type).items()
    return key, resource["Properties"]


def test_the_image_is_built_for_what_runs_it(gateway: Deployment, optioned_gateway: Deployment) -> None:
    for deployment, architecture, platform in (
        (gateway, "X86_64", "linux/amd64"),
        (optioned_gateway, "ARM64", "linux/arm64"),
    ):
        _, task = only(deployment, "AWS::ECS::TaskDefinition")
        assert task["RuntimePlatform"] == {"CpuArchitecture": architecture, "OperatingSystemFamily": "LINUX"}
        [image] = deployment.images["gateway"].values()
        assert image["source"]["platform"] == platform


def test_logs_are_dropped_after_the_stages_time_and_a_new_task_is_healthy_before_an_old_one_stops(
    gateway: Deployment,
) -> None:
    _, group = only(gateway, "AWS::Logs::LogGroup")
    assert group["RetentionInDays"] == 90
    _, service = only(gateway, "AWS::ECS::Service")
    assert service["DeploymentConfiguration"]["MinimumHealthyPercent"] == 100
    assert service["HealthCheckGracePeriodSeconds"] == 120


def test_by_default_nothing_is_added_that_costs(gateway: Deployment) -> None:
    assert not gateway.resources("gateway", "AWS::EC2::VPCEndpoint")
    assert not gateway.resources("gateway", "AWS::ApplicationAutoScaling::ScalableTarget")


def test_endpoints_lead_to_all_that_a_task_calls(optioned_gateway: Deployment) -> None:
    _, service = only(optioned_gateway, "AWS::ECS::Service")
    subnets = service["NetworkConfiguration"]["AwsvpcConfiguration"]["Subnets"]
    endpoints = {}
    for resource in optioned_gateway.resources("gateway", "AWS::EC2::VPCEndpoint").values():
        properties = resource["Properties"]
        assert (properties["VpcEndpointType"], properties["PrivateDnsEnabled"]) == ("Interface", True)
        assert properties["SubnetIds"] == subnets
        [group] = map(group_of, properties["SecurityGroupIds"])
        # Their names hold for the whole VPC, not for the tasks alone.
        assert lets(optioned_gateway, group, "Ingress", 443, "172.31.20.9")
        assert not lets(optioned_gateway, group, "Ingress", 443, AWS_ADDRESS)
        endpoints[str(properties["ServiceName"]["Fn::Join"][1][-1]).lstrip(".")] = resource
    # The image is pulled, the certificate read and the log written before the first request, triggers are woken by
    # appends; S3 and DynamoDB have gateway endpoints in the storage stack.
    assert set(endpoints) == {"ecr.api", "ecr.dkr", "secretsmanager", "logs", "sqs"}


def test_the_service_scales_where_it_may(optioned_gateway: Deployment) -> None:
    _, target = only(optioned_gateway, "AWS::ApplicationAutoScaling::ScalableTarget")
    assert (target["MinCapacity"], target["MaxCapacity"]) == (3, 9)
    _, service = only(optioned_gateway, "AWS::ECS::Service")
    assert "DesiredCount" not in service, "each deployment would undo what was scaled"


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("tasks", "0", "gateway_tasks must be a number from 1, not '0'"),
        ("tasks_max", "1", "gateway_tasks_max must be at least gateway_tasks"),
        ("cpu", "300", "gateway_cpu must be one of 256, 512, 1024, 2048, 4096, not 300"),
        (
            "memory_mb",
            "1024",
            "gateway_memory_mb must be 2048 to 8192 in steps of 1024 with gateway_cpu=1024",
        ),
        ("memory_mb", "3000", "in steps of 1024"),
        ("architecture", "mips", "gateway_architecture must be x86_64 or arm64, not 'mips'"),
        ("endpoints", "yes", "gateway_endpoints must be the range of the VPC, such as 172.31.0.0/16, not 'yes'"),
        ("zonal", "yes", "gateway_zonal must be true or false, not 'yes'"),
        ("direct", "kafka_private", "gateway_direct must be a domain such as kafka.private, not 'kafka_private'"),
        ("direct", "internal", "gateway_direct must be a domain"),
    ],
)
def test_wrong_options_are_refused(option: str, value: str, text: str) -> None:
    from infra.app import new_app
    from infra.stacks.gateway import GatewayOptions

    app = new_app()
    for key, context_value in {**GATEWAY_CONTEXT, f"gateway_{option}": value}.items():
        app.node.set_context(key, context_value)
    with pytest.raises(SystemExit, match=text):
        GatewayOptions.of(app.node)


# --- past the balancer --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def direct(with_gateway: Callable[..., Deployment]) -> Deployment:
    return with_gateway(
        {**GATEWAY_CONTEXT, "gateway_direct": "kafka.private", "gateway_tasks": "3", "gateway_tasks_max": "5"}
    )


def variables_of(task: dict[str, Any]) -> dict[str, Any]:
    [container] = task["ContainerDefinitions"]
    return {variable["Name"]: variable["Value"] for variable in container["Environment"]}


def test_metadata_names_the_tasks_of_the_zone_whose_task_is_asked(direct: Deployment) -> None:
    """A client that the balancer led to a task of its zone stays there: the name that it is told is that zone's."""
    [(domain_id, domain)] = direct.resources("gateway", "AWS::ServiceDiscovery::PrivateDnsNamespace").items()
    assert (domain["Properties"]["Name"], domain["Properties"]["Vpc"]) == (
        "kafka.private",
        GATEWAY_CONTEXT["gateway_vpc_id"],
    )
    names = direct.resources("gateway", "AWS::ServiceDiscovery::Service")
    tasks = direct.resources("gateway", "AWS::ECS::TaskDefinition")
    subnets: dict[str, str] = {}
    for service in direct.resources("gateway", "AWS::ECS::Service").values():
        properties = service["Properties"]
        [registered] = properties["ServiceRegistries"]
        name = names[registered["RegistryArn"]["Fn::GetAtt"][0]]["Properties"]
        assert name["NamespaceId"] == {"Fn::GetAtt": [domain_id, "Id"]}
        records = name["DnsConfig"]
        assert (records["RoutingPolicy"], records["DnsRecords"]) == ("MULTIVALUE", [{"TTL": 10, "Type": "A"}])
        variables = variables_of(tasks[properties["TaskDefinition"]["Ref"]]["Properties"])
        assert variables["ODRADEK_GATEWAY_ADVERTISED"] == f"{name['Name']}.kafka.private:9092"
        [subnets[name["Name"]]] = properties["NetworkConfiguration"]["AwsvpcConfiguration"]["Subnets"]
        assert {balancer["ContainerPort"] for balancer in properties["LoadBalancers"]} == {9092, 8081}, "the way in"
        rolled = properties["DeploymentConfiguration"]
        assert (rolled["MinimumHealthyPercent"], rolled["MaximumPercent"]) == (100, 200), "a name is never without"
    assert list(subnets.values()) == GATEWAY_CONTEXT["gateway_subnet_ids"].split(",")
    _, balancer = only(direct, "AWS::ElasticLoadBalancingV2::LoadBalancer")
    attributes = {attribute["Key"]: attribute["Value"] for attribute in balancer["LoadBalancerAttributes"]}
    assert attributes["load_balancing.cross_zone.enabled"] == "false", "the first connection finds the client's zone"


def test_a_task_is_named_once_it_is_healthy(direct: Deployment, gateway: Deployment) -> None:
    """Cloud Map names a running task at once, unless the container has a health check."""
    for name in direct.resources("gateway", "AWS::ServiceDiscovery::Service").values():
        assert name["Properties"]["HealthCheckCustomConfig"] == {"FailureThreshold": 1}
    for task in direct.resources("gateway", "AWS::ECS::TaskDefinition").values():
        [container] = task["Properties"]["ContainerDefinitions"]
        *command, code = container["HealthCheck"]["Command"]
        assert command == ["CMD", "python", "-c"]
        assert f":{variables_of(task['Properties'])['ODRADEK_GATEWAY_HEALTH_PORT']}/" in code
        compile(code, "health check", "exec")
    _, task = only(gateway, "AWS::ECS::TaskDefinition")
    assert "HealthCheck" not in task["ContainerDefinitions"][0]


def test_clients_reach_tasks_directly_and_nobody_else_does(direct: Deployment) -> None:
    service = next(iter(direct.resources("gateway", "AWS::ECS::Service").values()))["Properties"]
    [behind] = map(group_of, service["NetworkConfiguration"]["AwsvpcConfiguration"]["SecurityGroups"])
    assert lets(direct, behind, "Ingress", 9092, CLIENT)
    assert not lets(direct, behind, "Ingress", 9092, STRANGER)
    assert not lets(direct, behind, "Ingress", 8081, CLIENT), "the registry is the balancer's"
    assert not lets(direct, behind, "Ingress", 8080, CLIENT)


def test_each_zone_scales_by_itself(direct: Deployment) -> None:
    targets = direct.resources("gateway", "AWS::ApplicationAutoScaling::ScalableTarget").values()
    ranges = [(target["Properties"]["MinCapacity"], target["Properties"]["MaxCapacity"]) for target in targets]
    assert sorted(ranges) == [(1, 2), (2, 3)], "three to five, dealt out"
    for service in direct.resources("gateway", "AWS::ECS::Service").values():
        assert "DesiredCount" not in service["Properties"], "each deployment would undo what was scaled"


def test_without_scaling_tasks_are_dealt_out_to_the_zones(with_gateway: Callable[..., Deployment]) -> None:
    deployment = with_gateway({**GATEWAY_CONTEXT, "gateway_direct": "kafka.private", "gateway_tasks": "3"})
    services = deployment.resources("gateway", "AWS::ECS::Service").values()
    assert [service["Properties"]["DesiredCount"] for service in services] == [2, 1]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"gateway_brokers": "2"}, "gateway_direct is for gateways that lead nothing: leave gateway_brokers out"),
        ({"gateway_tasks": "1"}, "gateway_direct needs a task in each zone: gateway_tasks must be at least 2"),
        ({"gateway_zonal": "false"}, "with gateway_direct each zone serves its clients: leave gateway_zonal out"),
    ],
)
def test_a_way_past_the_balancer_that_cannot_be_is_refused(
    with_gateway: Callable[..., Deployment], more: dict[str, str], text: str
) -> None:
    with pytest.raises(SystemExit, match=text):
        with_gateway({**GATEWAY_CONTEXT, "gateway_direct": "kafka.private", **more})
