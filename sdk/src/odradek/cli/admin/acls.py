"""`odradek acls`: access control lists."""

from __future__ import annotations

from typing import Annotated

import typer

from odradek.cli.command_group import CommandGroup
from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, admin
from odradek.cli.output import Output, OutputOption, show_data, show_rows
from odradek.cli.screen import confirm
from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from odradek.operations import plain
from odradek.operations.security import acl_row, parse_operation

acls = typer.Typer(cls=CommandGroup, help="Create, list and delete ACLs.", no_args_is_help=True)

Topic = Annotated[str | None, typer.Option("--topic", help="Name of a topic; * is every topic.")]
Group = Annotated[str | None, typer.Option("--group", help="Name of a consumer group; * is every group.")]
Transaction = Annotated[str | None, typer.Option("--transactional-id", help="A transactional id; * is every id.")]
OnCluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Prefix = Annotated[bool, typer.Option("--prefix", help="The name is a prefix of names.")]
Principal = Annotated[
    str | None,
    typer.Option("--principal", help="User:<name>: of the Kafka port, or the ARN of an IAM role; User:* is everyone."),
]
Host = Annotated[str | None, typer.Option("--host", help="An IP address; all if left out.")]
Deny = Annotated[bool, typer.Option("--deny", help="Deny instead of allow; a denial always wins.")]


@acls.command()
def create(
    principal: Annotated[str, typer.Option("--principal", help="User:<name>, User:<ARN of a role>, or User:*.")],
    operation: Annotated[list[str], typer.Option("--operation", "-o", help="read, write ..., all; may be repeated.")],
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transaction = None,
    cluster: OnCluster = False,
    prefix: Prefix = False,
    host: Host = None,
    deny: Deny = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Allow (or deny) operations. From the first ACL on, everything that no ACL allows is denied, also to you.

    Example: [bold]odradek acls create --principal User:ada -o read --topic flights[/bold]
    """
    resource_type, name = _resource(topic, group, transactional_id, cluster)
    if resource_type is ResourceType.ANY or name is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give --topic, --group, --transactional-id or --cluster")
    rules = [
        AclBinding(
            resource_type,
            name,
            PatternType.PREFIXED if prefix else PatternType.LITERAL,
            principal,
            host or WILDCARD,
            parse_operation(operation_name),
            AclPermission.DENY if deny else AclPermission.ALLOW,
        )
        for operation_name in operation
    ]
    with admin(bootstrap_servers, data_dir) as client:
        client.create_acls(rules)
    _show(rules)


@acls.command("list")
def list_acls(
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transaction = None,
    cluster: OnCluster = False,
    principal: Principal = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the ACLs; with a name, those that apply to it."""
    resource_type, name = _resource(topic, group, transactional_id, cluster)
    with admin(bootstrap_servers, data_dir) as client:
        acls = client.describe_acls(AclFilter(resource_type, name, PatternType.MATCH, principal))
    _show(acls, output)


@acls.command()
def explain(
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transaction = None,
    cluster: OnCluster = False,
    principal: Principal = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print who may do what with a resource, and which ACL decides; with --principal, of one principal.

    Example: [bold]odradek acls explain --topic orders[/bold]
    """
    from odradek.operations.security import Rights, matrix
    from odradek.operations.security import explain as verdicts_of

    resource_type, name = _resource(topic, group, transactional_id, cluster)
    if resource_type is ResourceType.ANY or name is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give --topic, --group, --transactional-id or --cluster")
    resource = resource_type.name.lower()
    with admin(bootstrap_servers, data_dir) as client:
        acls = client.describe_acls()
        users = [] if principal else client.list_users()
    if principal:
        rows = [Rights(principal, tuple(verdicts_of(acls, principal, name, resource)))]
    else:
        rows = matrix(acls, users, name, resource)
    if show_data([plain(row) for row in rows], output):
        return
    lines = [
        {
            "principal": row.principal,
            "operation": verdict.operation,
            "may": verdict.is_allowed,
            "because_of": "-"
            if verdict.acl is None
            else f"{verdict.acl.may} {verdict.acl.principal} {verdict.acl.operation} "
            f"{verdict.acl.name}{'...' if verdict.acl.pattern == 'prefixed' else ''}",
        }
        for row in rows
        for verdict in row.verdicts
    ]
    show_rows(lines, ["principal", "operation", "may", "because_of"])


@acls.command()
def delete(
    topic: Topic = None,
    group: Group = None,
    transactional_id: Transaction = None,
    cluster: OnCluster = False,
    prefix: Prefix = False,
    principal: Principal = None,
    host: Host = None,
    operation: Annotated[str | None, typer.Option("--operation", "-o", help="Only ACLs of this operation.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All ACLs: everyone may do everything again.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Delete the ACLs that match."""
    resource_type, name = _resource(topic, group, transactional_id, cluster)
    wanted = AclFilter(
        resource_type,
        name,
        PatternType.ANY if name is None else PatternType.PREFIXED if prefix else PatternType.LITERAL,
        principal,
        host,
        AclOperation.ANY if operation is None else parse_operation(operation),
    )
    if wanted == AclFilter() and not everything:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "choose the ACLs to delete with options, or give --all")
    with admin(bootstrap_servers, data_dir) as client:
        if not yes:
            _show(client.describe_acls(wanted))
            confirm("Delete these?", yes=yes)
        deleted = client.delete_acls(wanted)
    typer.echo(f"deleted {len(deleted)} ACLs")


def _resource(
    topic: str | None, group: str | None, transactional_id: str | None, cluster: bool
) -> tuple[ResourceType, str | None]:
    """Return the resource that the options name. Raises KafkaError(INVALID_CONFIG) if they name several."""
    named = [
        (resource_type, name)
        for resource_type, name in (
            (ResourceType.TOPIC, topic),
            (ResourceType.GROUP, group),
            (ResourceType.TRANSACTIONAL_ID, transactional_id),
            (ResourceType.CLUSTER, CLUSTER_NAME if cluster else None),
        )
        if name is not None
    ]
    if len(named) > 1:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "an ACL applies to one resource: give one option")
    return named[0] if named else (ResourceType.ANY, None)


def _show(rules: list[AclBinding], output: Output = Output.TABLE) -> None:
    rows = [plain(acl_row(acl)) for acl in rules]
    if output is Output.TABLE:
        rows = [row | {"name": f"{row['name']}..."} if row["pattern"] == "prefixed" else row for row in rows]
    show_rows(rows, ["principal", "host", "may", "operation", "resource", "name"], output)
