"""The gateway stack, optional: the Kafka port and the schema registry for clients that cannot sign, on Fargate.

    clients ─TLS─> network load balancer ─> gateways in private subnets ─> S3, DynamoDB (gateway endpoints, no NAT)

It costs money while idle (a load balancer and at least one task), which is why it is made only where the context names
the subnets:

    -c gateway_vpc_id=vpc-1 -c gateway_subnet_ids=subnet-1,subnet-2     where; the storage stack's endpoints or others
                                                                        must lead to S3, DynamoDB, ECR and CloudWatch
    -c gateway_tls_secret_arn=arn:...      a secret {"certificate": PEM, "key": PEM}: the ports speak TLS
    -c gateway_advertised=kafka.example    the name in that certificate; by default the load balancer's own
    -c gateway_client_cidr=192.0.2.0/24    from where clients may connect; health checks come from the VPC itself
    -c gateway_tasks=2                     how many (2); any number serves, none keeps anything
    -c gateway_base_image=name@sha256:...  what the image is built of, by its digest; without it a tag, and a warning

Clients log in (SASL over the users of `odradek users`), always. Every gateway is the fleet's broker: it leads nothing,
so a client may reach any of them. The role is the union of the functions' rows in permissions.py, since a gateway does
all that they do.
"""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Annotations, CfnOutput, Duration, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from aws_cdk import aws_logs as logs
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct, Node

from infra.artifacts import Artifacts
from infra.constructs.function import store_environment
from infra.constructs.store_role import Store, StoreRole
from infra.gateway_image import BASE_IMAGE, image_directory, is_pinned
from infra.permissions import GATEWAY, PERMISSIONS
from infra.stages import Stage

KAFKA_PORT, REGISTRY_PORT, HEALTH_PORT = 9092, 8081, 8080
_NEEDED = ("vpc_id", "subnet_ids", "tls_secret_arn", "client_cidr")
_OPTIONAL = ("advertised", "tasks", "base_image")


@dataclass(frozen=True)
class GatewayOptions:
    """What the context says; see the module."""

    vpc_id: str
    subnet_ids: tuple[str, ...]
    tls_secret_arn: str
    client_cidr: str
    advertised: str = ""
    tasks: int = 2
    base_image: str = BASE_IMAGE

    @classmethod
    def of(cls, node: Node) -> GatewayOptions | None:
        """The options in an app's context; None where there are none. Raises SystemExit for half of them."""
        known = {name: str(node.try_get_context(f"gateway_{name}") or "") for name in (*_NEEDED, *_OPTIONAL)}
        if not any(known.values()):
            return None
        missing = [f"gateway_{name}" for name in _NEEDED if not known[name]]
        if missing:
            raise SystemExit(f"infra: a gateway needs -c {', -c '.join(missing)}: see infra/stacks/gateway.py")
        if known["tasks"] and not known["tasks"].isdigit():
            raise SystemExit(f"infra: gateway_tasks is a number, not {known['tasks']!r}")
        if known["base_image"] and not is_pinned(known["base_image"]):
            raise SystemExit(f"infra: gateway_base_image is name@sha256:digest, not {known['base_image']!r}")
        return cls(
            known["vpc_id"],
            tuple(each.strip() for each in known["subnet_ids"].split(",")),
            known["tls_secret_arn"],
            known["client_cidr"],
            known["advertised"],
            int(known["tasks"] or cls.tasks),
            known["base_image"] or BASE_IMAGE,
        )


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
        group = ec2.SecurityGroup(
            self, "Ports", vpc=vpc, description="Kafka port and registry", allow_all_outbound=True
        )
        for port in (KAFKA_PORT, REGISTRY_PORT, HEALTH_PORT):
            group.add_ingress_rule(ec2.Peer.ipv4(options.client_cidr), ec2.Port.tcp(port))
        balancer = elbv2.NetworkLoadBalancer(
            self, "Balancer", vpc=vpc, internet_facing=False, cross_zone_enabled=True, security_groups=[group],
            vpc_subnets=ec2.SubnetSelection(subnets=vpc.private_subnets),
        )  # fmt: skip
        if not is_pinned(options.base_image):
            Annotations.of(self).add_warning(
                f"the image is built of {options.base_image}, a name that may be another image tomorrow: pass "
                "-c gateway_base_image=name@sha256:digest"
            )
        service = self._service(stage, store, artifacts, options, vpc, group, balancer)
        for name, port in (("Kafka", KAFKA_PORT), ("Registry", REGISTRY_PORT)):
            balancer.add_listener(name, port=port, protocol=elbv2.Protocol.TCP).add_targets(
                f"{name}Tasks",
                port=port,
                protocol=elbv2.Protocol.TCP,
                targets=[service.load_balancer_target(container_name="gateway", container_port=port)],
                deregistration_delay=Duration.seconds(30),
                health_check=elbv2.HealthCheck(
                    protocol=elbv2.Protocol.HTTP, port=str(HEALTH_PORT), path="/", interval=Duration.seconds(10)
                ),
            )
        address = options.advertised or balancer.load_balancer_dns_name
        CfnOutput(self, "KafkaBootstrapServers", value=f"{address}:{KAFKA_PORT}")
        CfnOutput(self, "SchemaRegistryUrl", value=f"https://{address}:{REGISTRY_PORT}")

    def _service(
        self,
        stage: Stage,
        store: Store,
        artifacts: Artifacts,
        options: GatewayOptions,
        vpc: ec2.IVpc,
        group: ec2.SecurityGroup,
        balancer: elbv2.NetworkLoadBalancer,
    ) -> ecs.FargateService:
        role = StoreRole(
            self, "Access", service="ecs-tasks.amazonaws.com", permissions=PERMISSIONS[GATEWAY], store=store
        ).role
        task = ecs.FargateTaskDefinition(self, "Task", cpu=1024, memory_limit_mib=2048, task_role=role)
        secret = secretsmanager.Secret.from_secret_complete_arn(self, "Tls", options.tls_secret_arn)
        address = options.advertised or balancer.load_balancer_dns_name
        log_group = logs.LogGroup(
            self, "Logs", removal_policy=RemovalPolicy.RETAIN if stage.keeps_data else RemovalPolicy.DESTROY
        )
        task.add_container(
            "gateway",
            image=ecs.ContainerImage.from_asset(str(image_directory(artifacts, options.base_image))),
            environment={
                **store_environment(store),
                **stage.settings.to_env(),
                "AWS_REGION": self.region,
                "ODRADEK_GATEWAY_LISTEN": f"0.0.0.0:{KAFKA_PORT}",
                "ODRADEK_GATEWAY_REGISTRY_LISTEN": f"0.0.0.0:{REGISTRY_PORT}",
                "ODRADEK_GATEWAY_ADVERTISED": f"{address}:{KAFKA_PORT}",
                "ODRADEK_GATEWAY_SASL": "true",
                "ODRADEK_GATEWAY_HEALTH_PORT": str(HEALTH_PORT),
            },
            secrets={
                "ODRADEK_GATEWAY_TLS_CERT_PEM": ecs.Secret.from_secrets_manager(secret, "certificate"),
                "ODRADEK_GATEWAY_TLS_KEY_PEM": ecs.Secret.from_secrets_manager(secret, "key"),
            },
            port_mappings=[ecs.PortMapping(container_port=port) for port in (KAFKA_PORT, REGISTRY_PORT, HEALTH_PORT)],
            logging=ecs.LogDrivers.aws_logs(stream_prefix="gateway", log_group=log_group),
            stop_timeout=Duration.seconds(30),
        )
        return ecs.FargateService(
            self,
            "Service",
            cluster=ecs.Cluster(self, "Cluster", vpc=vpc, container_insights_v2=ecs.ContainerInsights.ENABLED),
            task_definition=task,
            desired_count=options.tasks,
            security_groups=[group],
            vpc_subnets=ec2.SubnetSelection(subnets=vpc.private_subnets),
            assign_public_ip=False,
            min_healthy_percent=50,
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
        )
