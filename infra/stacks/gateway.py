"""The gateway stack, optional: the Kafka port and the schema registry for clients that cannot sign, on Fargate.

    clients ─TLS─> network load balancer ─> gateways in private subnets ─> S3, DynamoDB (gateway endpoints, no NAT)
    (CIDR)          security group of its own  security group of its own      ECR, Secrets Manager, CloudWatch Logs

The balancer's group takes clients in and lets traffic and health checks out to the tasks' group, which takes nothing
else in. A load balancer passes clients' addresses on, so that ACLs of hosts and the audit log have them; the tasks'
group refers to the balancer's all the same (Elastic Load Balancing user guide, "Update the security groups").

It costs money while idle (a load balancer and at least one task), so it is created only if the context names the
subnets:

    -c gateway_vpc_id=vpc-1 -c gateway_subnet_ids=subnet-1,subnet-2     location; a NAT, or endpoints of S3,
                                                                        DynamoDB, ECR, Secrets Manager, CloudWatch Logs
    -c gateway_tls_secret_arn=arn:...      a secret {"certificate": PEM, "key": PEM}: the ports speak TLS
    -c gateway_advertised=kafka.example    the name in that certificate; by default the load balancer's name
    -c gateway_client_cidr=192.0.2.0/24    addresses of clients
    -c gateway_tasks=2                     number of gateways (2); gateways have no state
    -c gateway_tasks_max=8                 maximum for automatic scaling; without it the number is fixed
    -c gateway_cpu=256                     of each task, 256 to 4096: 1024 is one vCPU (1024)
    -c gateway_memory_mb=1024              of each task (2048); a quarter of it holds requests at most
    -c gateway_brokers=3                   in place of tasks: brokers that share the partitions, each with a port
    -c gateway_zonal=true                  each zone's tasks serve its clients: no traffic across zones is billed
    -c gateway_direct=kafka.private        the same, and past the balancer: a private domain to create in the VPC, whose
                                           names (zone1.kafka.private) the certificate has, too
    -c gateway_architecture=arm64          of the image and its tasks; x86_64, which Docker builds on most machines
    -c gateway_endpoints=172.31.0.0/16     create five interface endpoints in the subnets for this range, the VPC's
                                           (docs/DEPLOY.md has prices)
    -c gateway_base_image=name@sha256:...  base image, by its digest; without it a tag, and a warning

Clients must always log in (SASL with the users of `odradek users`). Every gateway acts as the fleet's broker: it leads
no partition, so a client may use any of them. With `gateway_brokers` each is a service of one task with a broker id, in
the next of the subnets, and the balancer has a port for it (9101 and so on) beside the one to bootstrap from: all
producers of a partition meet in its leader, which makes one upload of what they send. A deployment replaces one broker
after the other. The role is the union of the functions' rows in permissions.py, since a gateway does all that they do.

Clients in the VPC get the address of the balancer's node in their own zone while that is healthy. It passes a
connection on to a task of any zone, and AWS bills what crosses; with `gateway_zonal`, to one of its own. A zone without
a healthy task then leaves the balancer's name, and its clients find another zone once they resolve the name again.

With `gateway_direct` each zone has a service of its own, whose running tasks are the addresses of a name (AWS Cloud
Map). A client's first connection goes through the balancer to a task of its zone, which names that name in its
metadata: from there on nothing passes the balancer, whose capacity is billed by the byte (docs/decisions/0086).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import Annotations, CfnOutput, Duration, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from aws_cdk import aws_logs as logs
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_servicediscovery as servicediscovery
from aws_cdk import aws_sns as sns
from constructs import Construct, Node
from odradek.functions.environment import WAKE_QUEUE_URL
from odradek.functions.telemetry import NAMESPACE
from odradek.gateway.cloudwatch import KAFKA

from infra.artifacts import Artifacts
from infra.constructs.function import log_retention, store_environment
from infra.constructs.gateway_alarms import GatewayAlarms
from infra.constructs.store_role import Store, StoreRole
from infra.constructs.wake_queue import allow_wakes, queue_url
from infra.gateway_image import BASE_IMAGE, image_directory, is_pinned
from infra.permissions import GATEWAY, PERMISSIONS
from infra.stages import Stage

KAFKA_PORT, REGISTRY_PORT, HEALTH_PORT, HTTPS_PORT = 9092, 8081, 8080, 443
FIRST_BROKER_PORT = 9101
BROKERS_MAX = 40  # a network load balancer has at most 50 listeners
_STOP_S = 30
_DRAIN_MS = 20_000  # within it connections are closed one after the other; then requests in flight have the rest
# What a task calls before and while it serves, beside S3 and DynamoDB, whose endpoints cost nothing (storage stack).
ENDPOINT_SERVICES = ("ecr.api", "ecr.dkr", "secretsmanager", "logs", "sqs")
_CPU_TARGET_PERCENT = 60
_CONNECTIONS_SHARE = 0.6  # of those that a gateway takes
_NEEDED = ("vpc_id", "subnet_ids", "tls_secret_arn", "client_cidr")
_OPTIONAL = (
    *("advertised", "tasks", "tasks_max", "cpu", "memory_mb", "brokers", "architecture", "endpoints"),
    *("base_image", "zonal", "direct"),
)
_DOMAIN = re.compile(r"(?=.{4,200}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]")
_NAME_TTL = Duration.seconds(10)  # of a zone's name: how long clients may look for a task that is gone
# Cloud Map takes a task for healthy as soon as it runs, unless its container says when it is.
_IS_HEALTHY = f"import urllib.request as web; web.urlopen('http://127.0.0.1:{HEALTH_PORT}/', timeout=4)"
# Of Fargate, from 1 GB on: below it, a gateway has no room for requests. Source: Amazon ECS, "Task CPU and memory".
_MEMORY_MB = {256: (1024, 2048), 512: (1024, 4096), 1024: (2048, 8192), 2048: (4096, 16384), 4096: (8192, 30720)}
_BUFFERED_SHARE = 4
_ARCHITECTURES = {
    "x86_64": (ecs.CpuArchitecture.X86_64, ecr_assets.Platform.LINUX_AMD64),
    "arm64": (ecs.CpuArchitecture.ARM64, ecr_assets.Platform.LINUX_ARM64),
}


@dataclass(frozen=True)
class GatewayOptions:
    """The options in the context; see the module."""

    vpc_id: str
    subnet_ids: tuple[str, ...]
    tls_secret_arn: str
    client_cidr: str
    advertised: str = ""
    tasks: int = 2
    tasks_max: int = 0  # 0: as many as `tasks`, without scaling
    cpu: int = 1024
    memory_mb: int = 2048
    brokers: int = 0  # 0: gateways lead nothing
    architecture: str = "x86_64"
    endpoints: str = ""  # the range of the VPC whose hosts may use the endpoints; none: no endpoints
    base_image: str = BASE_IMAGE
    zonal: bool = False  # the balancer passes no connection on to another zone
    direct: str = ""  # the domain of the zones' names; none: all goes through the balancer

    @property
    def gateways(self) -> int:
        """How many there are."""
        return self.brokers or self.tasks

    @property
    def broker_ports(self) -> dict[int, int]:
        """The balancer's port of each broker, by broker id."""
        return {number: FIRST_BROKER_PORT + number - 1 for number in range(1, self.brokers + 1)}

    @classmethod
    def of(cls, node: Node) -> GatewayOptions | None:
        """Return the options in an app's context; None without any. Raises SystemExit for incomplete ones."""
        context = {name: str(node.try_get_context(f"gateway_{name}") or "") for name in (*_NEEDED, *_OPTIONAL)}
        if not any(context.values()):
            return None
        missing = [f"gateway_{name}" for name in _NEEDED if not context[name]]
        if missing:
            raise SystemExit(f"infra: a gateway needs -c {', -c '.join(missing)}: see infra/stacks/gateway.py")
        for name in ("tasks", "tasks_max", "cpu", "memory_mb", "brokers"):
            if context[name] and not (context[name].isdigit() and int(context[name])):
                raise SystemExit(f"infra: gateway_{name} must be a number from 1, not {context[name]!r}")
        tasks, tasks_max = int(context["tasks"] or cls.tasks), int(context["tasks_max"] or 0)
        if tasks_max and tasks_max < tasks:
            raise SystemExit(f"infra: gateway_tasks_max must be at least gateway_tasks ({tasks}), not {tasks_max}")
        cpu, memory_mb = int(context["cpu"] or cls.cpu), int(context["memory_mb"] or cls.memory_mb)
        if cpu not in _MEMORY_MB:
            raise SystemExit(f"infra: gateway_cpu must be one of {', '.join(map(str, _MEMORY_MB))}, not {cpu}")
        least, most = _MEMORY_MB[cpu]
        if not least <= memory_mb <= most or memory_mb % 1024:
            raise SystemExit(
                f"infra: gateway_memory_mb must be {least} to {most} in steps of 1024 with gateway_cpu={cpu}, "
                f"not {memory_mb}"
            )
        brokers = int(context["brokers"] or 0)
        if brokers and (context["tasks"] or context["tasks_max"]):
            raise SystemExit("infra: gateway_brokers says how many gateways there are: leave gateway_tasks(_max) out")
        if brokers > BROKERS_MAX:
            raise SystemExit(f"infra: gateway_brokers must be at most {BROKERS_MAX}, not {brokers}")
        architecture = context["architecture"] or cls.architecture
        if architecture not in _ARCHITECTURES:
            raise SystemExit(f"infra: gateway_architecture must be {' or '.join(_ARCHITECTURES)}, not {architecture!r}")
        if context["endpoints"]:
            try:
                ipaddress.IPv4Network(context["endpoints"])
            except ValueError:
                raise SystemExit(
                    "infra: gateway_endpoints must be the range of the VPC, such as 172.31.0.0/16, "
                    f"not {context['endpoints']!r}"
                ) from None
        if context["base_image"] and not is_pinned(context["base_image"]):
            raise SystemExit(f"infra: gateway_base_image must be name@sha256:digest, not {context['base_image']!r}")
        subnet_ids = tuple(subnet.strip() for subnet in context["subnet_ids"].split(","))
        zonal = context["zonal"].lower() or "false"
        if zonal not in ("true", "false"):
            raise SystemExit(f"infra: gateway_zonal must be true or false, not {context['zonal']!r}")
        direct = context["direct"].lower().rstrip(".")
        if direct and not _DOMAIN.fullmatch(direct):
            raise SystemExit(f"infra: gateway_direct must be a domain such as kafka.private, not {context['direct']!r}")
        if direct and context["zonal"] and zonal == "false":
            raise SystemExit("infra: with gateway_direct each zone serves its clients: leave gateway_zonal out")
        name = "gateway_direct" if direct else "gateway_zonal" if zonal == "true" else ""
        if name and brokers:
            raise SystemExit(f"infra: {name} is for gateways that lead nothing: leave gateway_brokers out")
        if name and tasks < len(subnet_ids):
            raise SystemExit(
                f"infra: {name} needs a task in each zone: gateway_tasks must be at least {len(subnet_ids)}, "
                f"the number of subnets, not {tasks}"
            )
        return cls(
            context["vpc_id"],
            subnet_ids,
            context["tls_secret_arn"],
            context["client_cidr"],
            context["advertised"],
            tasks,
            tasks_max,
            cpu,
            memory_mb,
            brokers,
            architecture,
            context["endpoints"],
            context["base_image"] or BASE_IMAGE,
            bool(name),
            direct,
        )


def shares(count: int, parts: int) -> list[int]:
    """Return `count` in so many parts, which differ by one at most: the larger ones first."""
    return [count // parts + (part < count % parts) for part in range(parts)]


class GatewayStack(Stack):
    """Gateways behind a network load balancer."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        store: Store,
        artifacts: Artifacts,
        options: GatewayOptions,
        alarms: sns.ITopic,
    ) -> None:
        super().__init__(scope, construct_id, description="Odradek: the Kafka port and the schema registry, on Fargate")
        artifacts.require(self)
        vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=options.vpc_id,
            availability_zones=[f"zone-{i}" for i in range(len(options.subnet_ids))],  # names are not used
            private_subnet_ids=list(options.subnet_ids),
        )
        front, tasks = self._security_groups(options, vpc)
        balancer = elbv2.NetworkLoadBalancer(
            self, "Balancer", vpc=vpc, internet_facing=False, security_groups=[front],
            vpc_subnets=ec2.SubnetSelection(subnets=vpc.private_subnets),
            # A broker's port has a target in one zone, and a task may be the last one that is well: both need the rest.
            cross_zone_enabled=not options.zonal,
            client_routing_policy=elbv2.ClientRoutingPolicy.AVAILABILITY_ZONE_AFFINITY,
        )  # fmt: skip
        if options.endpoints:
            self._add_endpoints(options.endpoints, vpc)
        if not is_pinned(options.base_image):
            Annotations.of(self).add_warning(
                f"the image is built from {options.base_image}, a tag that may name another image tomorrow: pass "
                "-c gateway_base_image=name@sha256:digest"
            )
        if options.direct:
            tasks.add_ingress_rule(ec2.Peer.ipv4(options.client_cidr), ec2.Port.tcp(KAFKA_PORT), "clients, directly")
        services = self._services(stage, store, artifacts, options, vpc, tasks, balancer)
        ports = {"Kafka": (KAFKA_PORT, KAFKA_PORT, services), "Registry": (REGISTRY_PORT, REGISTRY_PORT, services)}
        for service, port in zip(services, options.broker_ports.values(), strict=False):
            ports[f"Broker{port - FIRST_BROKER_PORT + 1}"] = (port, KAFKA_PORT, [service])
        targets = {
            name: self._listen(balancer, name, port, to_port, behind) for name, (port, to_port, behind) in ports.items()
        }
        if options.tasks_max:
            for service, least, most in zip(
                services, shares(options.tasks, len(services)), shares(options.tasks_max, len(services)), strict=True
            ):
                self._scale(service, stage, least, most)
        GatewayAlarms(
            self, "Watch", stage=stage, topic=alarms, services=services, balancer=balancer,
            targets=targets["Kafka"], tasks=options.gateways,
        )  # fmt: skip
        address = options.advertised or balancer.load_balancer_dns_name
        CfnOutput(self, "KafkaBootstrapServers", value=f"{address}:{KAFKA_PORT}")
        CfnOutput(self, "SchemaRegistryUrl", value=f"https://{address}:{REGISTRY_PORT}")

    def _scale(self, service: ecs.FargateService, stage: Stage, least: int, most: int) -> None:
        """More tasks where these are busy, or hold many connections: idle clients cost no CPU, but each has a place."""
        scaling = service.auto_scale_task_count(min_capacity=least, max_capacity=most)
        scaling.scale_on_cpu_utilization("Cpu", target_utilization_percent=_CPU_TARGET_PERCENT)
        scaling.scale_to_track_custom_metric(
            "Connections",
            metric=cloudwatch.Metric(
                namespace=NAMESPACE,
                metric_name="connections",
                dimensions_map={"cluster_id": stage.settings.cluster_id, "function": KAFKA},
                statistic="Average",  # of the tasks, each of which says its own once a minute
                period=Duration.minutes(1),
            ),
            target_value=_CONNECTIONS_SHARE * stage.settings.gateway_connections_max,
        )

    def _listen(
        self,
        balancer: elbv2.NetworkLoadBalancer,
        name: str,
        port: int,
        to_port: int,
        services: Sequence[ecs.FargateService],
    ) -> elbv2.NetworkTargetGroup:
        """Forward a port of the balancer to one of the services' tasks."""
        return balancer.add_listener(name, port=port, protocol=elbv2.Protocol.TCP).add_targets(
            f"{name}Tasks",
            port=to_port,
            protocol=elbv2.Protocol.TCP,
            targets=[
                service.load_balancer_target(container_name="gateway", container_port=to_port) for service in services
            ],
            deregistration_delay=Duration.seconds(_STOP_S),
            preserve_client_ip=True,
            health_check=elbv2.HealthCheck(
                protocol=elbv2.Protocol.HTTP, port=str(HEALTH_PORT), path="/", interval=Duration.seconds(10)
            ),
        )

    def _security_groups(self, options: GatewayOptions, vpc: ec2.IVpc) -> tuple[ec2.SecurityGroup, ec2.SecurityGroup]:
        """Of the balancer and of the tasks; see the module."""
        front = ec2.SecurityGroup(
            self, "Front", vpc=vpc, description="Clients to the Kafka port and the registry", allow_all_outbound=False
        )
        tasks = ec2.SecurityGroup(
            self, "Ports", vpc=vpc, description="Load balancer to gateways", allow_all_outbound=False
        )
        for port in (KAFKA_PORT, REGISTRY_PORT, *options.broker_ports.values()):
            front.add_ingress_rule(ec2.Peer.ipv4(options.client_cidr), ec2.Port.tcp(port), "clients")
        for port in (KAFKA_PORT, REGISTRY_PORT, HEALTH_PORT):
            front.add_egress_rule(tasks, ec2.Port.tcp(port), "traffic and health checks")
            tasks.add_ingress_rule(front, ec2.Port.tcp(port), "traffic and health checks")
        tasks.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(HTTPS_PORT), "AWS")  # name lookups need no rule
        return front, tasks

    def _add_endpoints(self, vpc_cidr: str, vpc: ec2.IVpc) -> None:
        """Interface endpoints. Their private names hold for the whole VPC, so all of it may reach them; each still asks
        for a signature."""
        group = ec2.SecurityGroup(
            self, "Endpoints", vpc=vpc, description="The VPC to endpoints of AWS", allow_all_outbound=False
        )
        group.add_ingress_rule(ec2.Peer.ipv4(vpc_cidr), ec2.Port.tcp(HTTPS_PORT), "the VPC")
        for name in ENDPOINT_SERVICES:
            ec2.InterfaceVpcEndpoint(
                self,
                "".join(part.capitalize() for part in ("endpoint", *name.split("."))),
                vpc=vpc,
                service=ec2.InterfaceVpcEndpointService(f"com.amazonaws.{self.region}.{name}", HTTPS_PORT),
                subnets=ec2.SubnetSelection(subnets=vpc.private_subnets),
                security_groups=[group],
                private_dns_enabled=True,
                open=False,
            )

    def _services(
        self,
        stage: Stage,
        store: Store,
        artifacts: Artifacts,
        options: GatewayOptions,
        vpc: ec2.IVpc,
        group: ec2.SecurityGroup,
        balancer: elbv2.NetworkLoadBalancer,
    ) -> list[ecs.FargateService]:
        """One service of equal gateways, one of each zone's with names of their own, or one a broker, which are
        deployed one after the other."""
        role = StoreRole(
            self, "Access", service="ecs-tasks.amazonaws.com", permissions=PERMISSIONS[GATEWAY], store=store
        ).role
        allow_wakes(self, stage, GATEWAY, role)
        architecture, platform = _ARCHITECTURES[options.architecture]
        buffered = min(stage.settings.gateway_buffered_bytes_max, options.memory_mb * 1024 * 1024 // _BUFFERED_SHARE)
        image = ecs.ContainerImage.from_asset(str(image_directory(artifacts, options.base_image)), platform=platform)
        secret = secretsmanager.Secret.from_secret_complete_arn(self, "Tls", options.tls_secret_arn)
        address = options.advertised or balancer.load_balancer_dns_name
        log_group = logs.LogGroup(
            self,
            "Logs",
            retention=log_retention(stage.log_retention_days),
            removal_policy=RemovalPolicy.RETAIN if stage.keeps_data else RemovalPolicy.DESTROY,
        )
        cluster = ecs.Cluster(self, "Cluster", vpc=vpc, container_insights_v2=ecs.ContainerInsights.ENABLED)

        def definition(name: str, advertised: str, more: Mapping[str, str]) -> ecs.FargateTaskDefinition:
            task = ecs.FargateTaskDefinition(
                self,
                name,
                cpu=options.cpu,
                memory_limit_mib=options.memory_mb,
                task_role=role,
                runtime_platform=ecs.RuntimePlatform(
                    cpu_architecture=architecture, operating_system_family=ecs.OperatingSystemFamily.LINUX
                ),
            )
            task.add_container(
                "gateway",
                image=image,
                environment={
                    **store_environment(store),
                    **stage.settings.to_env(),
                    WAKE_QUEUE_URL: queue_url(self, stage),
                    "AWS_REGION": self.region,
                    "ODRADEK_GATEWAY_LISTEN": f"0.0.0.0:{KAFKA_PORT}",
                    "ODRADEK_GATEWAY_REGISTRY_LISTEN": f"0.0.0.0:{REGISTRY_PORT}",
                    "ODRADEK_GATEWAY_ADVERTISED": advertised,
                    "ODRADEK_GATEWAY_SASL": "true",
                    "ODRADEK_GATEWAY_HEALTH_PORT": str(HEALTH_PORT),
                    "ODRADEK_GATEWAY_METRICS": "emf",
                    "ODRADEK_GATEWAY_DRAIN_MS": str(_DRAIN_MS),
                    "ODRADEK_GATEWAY_BUFFERED_BYTES_MAX": str(buffered),
                    **more,
                },
                secrets={
                    "ODRADEK_GATEWAY_TLS_CERT_PEM": ecs.Secret.from_secrets_manager(secret, "certificate"),
                    "ODRADEK_GATEWAY_TLS_KEY_PEM": ecs.Secret.from_secrets_manager(secret, "key"),
                },
                port_mappings=[
                    ecs.PortMapping(container_port=port) for port in (KAFKA_PORT, REGISTRY_PORT, HEALTH_PORT)
                ],
                logging=ecs.LogDrivers.aws_logs(stream_prefix="gateway", log_group=log_group),
                stop_timeout=Duration.seconds(_STOP_S),
                health_check=ecs.HealthCheck(
                    command=["CMD", "python", "-c", _IS_HEALTHY],
                    interval=Duration.seconds(15),
                    timeout=Duration.seconds(10),
                    start_period=Duration.minutes(1),
                )
                if options.direct
                else None,
            )
            return task

        def service(
            name: str, task: ecs.FargateTaskDefinition, subnets: ec2.SubnetSelection, **more: Any
        ) -> ecs.FargateService:
            return ecs.FargateService(
                self,
                name,
                cluster=cluster,
                task_definition=task,
                security_groups=[group],
                vpc_subnets=subnets,
                assign_public_ip=False,
                health_check_grace_period=Duration.minutes(2),
                circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
                **more,
            )

        everywhere = vpc.private_subnets
        if options.direct:
            names = servicediscovery.PrivateDnsNamespace(self, "Names", name=options.direct, vpc=vpc)
            in_zones = []
            for number, (subnet, tasks) in enumerate(
                zip(everywhere, shares(options.tasks, len(everywhere)), strict=True), start=1
            ):
                named = ecs.CloudMapOptions(
                    name=f"zone{number}",
                    cloud_map_namespace=names,
                    dns_record_type=servicediscovery.DnsRecordType.A,
                    dns_ttl=_NAME_TTL,
                )
                task = definition(f"ZoneTask{number}", f"zone{number}.{options.direct}:{KAFKA_PORT}", {})
                in_zones.append(
                    service(
                        f"Zone{number}", task, ec2.SubnetSelection(subnets=[subnet]), cloud_map_options=named,
                        desired_count=None if options.tasks_max else tasks,
                        min_healthy_percent=100, max_healthy_percent=200,
                    )
                )  # fmt: skip
            return in_zones
        if not options.brokers:
            # Where the service scales itself, a deployment leaves the number as it is.
            count = None if options.tasks_max else options.tasks
            task = definition("Task", f"{address}:{KAFKA_PORT}", {})
            return [
                service(
                    "Service", task, ec2.SubnetSelection(subnets=everywhere),
                    desired_count=count, min_healthy_percent=100, max_healthy_percent=200,
                )
            ]  # fmt: skip
        services: list[ecs.FargateService] = []
        for broker_id, port in options.broker_ports.items():
            task = definition(f"Task{broker_id}", f"{address}:{port}", {"ODRADEK_GATEWAY_BROKER_ID": str(broker_id)})
            subnet = everywhere[(broker_id - 1) % len(everywhere)]
            # An id has one holder: the old task goes before the new one comes.
            made = service(
                f"Broker{broker_id}", task, ec2.SubnetSelection(subnets=[subnet]),
                desired_count=1, min_healthy_percent=0, max_healthy_percent=100,
            )  # fmt: skip
            if services:
                made.node.add_dependency(services[-1])
            services.append(made)
        return services
