"""Access rules: the decision, and the items behind it."""

from __future__ import annotations

import pytest
from odradek.engine.access.acls import check
from odradek.engine.access.decisions import AclSet
from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import AclBinding, AclFilter, Resource
from odradek.model.acl import AclOperation as Op
from odradek.model.acl import AclPermission as Permission
from odradek.model.acl import PatternType as Pattern
from odradek.model.acl import ResourceType as Type
from odradek.operations.security import acl_row, parse_acl
from odradek.testing.faults import Fault

from tests.support.engine import memory_store

LITERAL, PREFIXED = Pattern.LITERAL, Pattern.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
ARN = "User:arn:aws:sts::123456789012:assumed-role/Writers/i-0abc"


def rule(
    operation: Op = Op.READ,
    name: str = "t",
    permission: Permission = ALLOW,
    principal: str = "User:a",
    pattern: Pattern = LITERAL,
    host: str = "*",
    resource_type: Type = Type.TOPIC,
) -> AclBinding:
    return AclBinding(resource_type, name, pattern, principal, host, operation, permission)


def may(
    acls: list[AclBinding], operation: Op, name: str = "t", principal: str = "User:a", host: str = "192.0.2.1"
) -> bool:
    return AclSet(acls).allows(principal, host, operation, Resource(Type.TOPIC, name))


def test_without_rules_everyone_may_do_everything_unless_the_setting_says_otherwise() -> None:
    topic = Resource(Type.TOPIC, "t")
    assert AclSet().allows("User:a", "h", Op.WRITE, topic)
    assert not AclSet(everyone="false").allows("User:a", "h", Op.WRITE, topic)


def test_the_first_rule_closes_what_no_rule_opens() -> None:
    assert may([rule()], Op.READ)
    assert not may([rule()], Op.WRITE)
    assert not may([rule()], Op.READ, name="other")
    assert not may([rule()], Op.READ, principal="User:b")
    assert not AclSet([rule()]).allows("User:a", "h", Op.READ, Resource(Type.GROUP, "t"))


def test_what_no_rule_covers_is_open_where_the_setting_is_kafkas() -> None:
    acls = AclSet([rule(), rule(Op.READ, "fl", pattern=PREFIXED, principal="User:b")], everyone="true")

    def open_to(principal: str, operation: Op, name: str, resource_type: Type = Type.TOPIC) -> bool:
        return acls.allows(principal, "h", operation, Resource(resource_type, name))

    assert [open_to("User:a", Op.READ, "t"), open_to("User:a", Op.WRITE, "t")] == [True, False]
    assert not open_to("User:b", Op.READ, "t"), "a rule for anybody closes the resource to others"
    assert not open_to("User:a", Op.READ, "flights")
    assert open_to("User:a", Op.WRITE, "other")
    assert open_to("User:a", Op.READ, "t", Type.GROUP)
    assert acls.allows_any("User:c", "h", Op.WRITE, Type.TOPIC)
    assert not AclSet([rule(name="*", principal="User:b")], everyone="true").allows(
        "User:a", "h", Op.READ, Resource(Type.TOPIC, "t")
    )
    assert not AclSet([rule(name="*", principal="User:b")], everyone="true").allows_any(
        "User:a", "h", Op.READ, Type.TOPIC
    )
    assert (acls.is_ruled(Resource(Type.TOPIC, "t")), acls.is_ruled(Resource(Type.GROUP, "t"))) == (True, False)


def test_super_users_are_not_bound() -> None:
    acls = AclSet([rule(Op.ALL, "*", DENY, "User:*")], super_users=["User:root"])
    assert acls.allows("User:root", "h", Op.DELETE, Resource(Type.TOPIC, "t"))
    assert not acls.allows("User:a", "h", Op.DELETE, Resource(Type.TOPIC, "t"))


@pytest.mark.parametrize("implying", [Op.READ, Op.WRITE, Op.DELETE, Op.ALTER, Op.ALL])
def test_operations_that_imply_describe(implying: Op) -> None:
    assert may([rule(implying)], Op.DESCRIBE)


def test_what_implies_nothing() -> None:
    assert not may([rule(Op.CREATE)], Op.DESCRIBE)
    assert not may([rule(Op.DESCRIBE)], Op.READ)
    assert may([rule(Op.ALTER_CONFIGS)], Op.DESCRIBE_CONFIGS)
    assert not may([rule(Op.ALTER_CONFIGS)], Op.DESCRIBE)
    assert may([rule(Op.DESCRIBE), rule(Op.READ, permission=DENY)], Op.DESCRIBE), "a denial implies nothing"


@pytest.mark.parametrize(
    "denial",
    [
        rule(permission=DENY),
        rule(Op.ALL, permission=DENY),
        rule(name="*", permission=DENY),
        rule(name="", permission=DENY, pattern=PREFIXED),
        rule(principal="User:*", permission=DENY),
        rule(permission=DENY, host="192.0.2.1"),
    ],
)
def test_deny_wins(denial: AclBinding) -> None:
    assert not may([rule(), rule(Op.ALL, "*", principal="User:*"), denial], Op.READ)


def test_patterns() -> None:
    assert may([rule(name="*")], Op.READ, name="anything")
    assert may([rule(name="fl", pattern=PREFIXED)], Op.READ, name="flights")
    assert not may([rule(name="fl", pattern=PREFIXED)], Op.READ, name="afl")
    assert not may([rule(name="*", pattern=PREFIXED)], Op.READ, name="flights"), "a prefixed * is a name's beginning"
    assert may([rule(host="192.0.2.1")], Op.READ)
    assert not may([rule(host="192.0.2.1")], Op.READ, host="192.0.2.2")


@pytest.mark.parametrize(
    "principal",
    [ARN, "User:arn:aws:sts::123456789012:assumed-role/Writers", "User:arn:aws:iam::123456789012:role/Writers"],
)
def test_a_rule_for_a_role_is_meant_for_every_session_of_it(principal: str) -> None:
    assert may([rule(principal=principal)], Op.READ, principal=ARN)
    assert not may([rule(principal=principal)], Op.READ, principal=ARN.replace("Writers", "Writers2"))
    assert not may([rule(principal=principal)], Op.READ, principal=ARN.replace("123456789012", "999999999999"))


def test_any_resource_of_a_type() -> None:
    def any_of(*acls: AclBinding) -> bool:
        return AclSet(acls).allows_any("User:a", "h", Op.WRITE, Type.TOPIC)

    assert any_of(rule(Op.WRITE))
    assert not any_of(rule(Op.READ))
    assert not any_of(rule(Op.WRITE), rule(Op.WRITE, permission=DENY))
    assert any_of(rule(Op.WRITE, "fl", pattern=PREFIXED), rule(Op.WRITE, "flights", DENY))
    assert not any_of(rule(Op.WRITE, "fli", pattern=PREFIXED), rule(Op.WRITE, "fl", DENY, pattern=PREFIXED))
    assert not any_of(rule(Op.WRITE, "*"), rule(Op.ALL, "*", DENY))


@pytest.mark.parametrize(
    "wrong",
    [
        rule(principal="ada"),
        rule(principal=":ada"),
        rule(host="192.0.2.0/99"),
        rule(host=""),
        rule(name=""),
        rule(Op.ANY),
        rule(permission=Permission.ANY),
        rule(pattern=Pattern.MATCH),
        rule(Op.ALTER, "other-cluster", resource_type=Type.CLUSTER),
        rule(name="x" * 250),
        rule(principal="User:" + "x" * 3000),
    ],
)
def test_rules_that_cannot_be(wrong: AclBinding) -> None:
    with pytest.raises(KafkaError) as refused:
        check(wrong)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "resource_type", [resource_type for resource_type in Type if resource_type not in (Type.ANY, Type.CLUSTER)]
)
@pytest.mark.parametrize("operation", [operation for operation in Op if operation is not Op.ANY])
def test_rules_of_any_operation_on_any_resource_are_kept(resource_type: Type, operation: Op) -> None:
    """Apache Kafka stores what no request asks for, and scripts that copy ACLs rely on it."""
    check(rule(operation, resource_type=resource_type))
    check(rule(operation, resource_type=resource_type, principal="Group:ada"))


@pytest.mark.parametrize(
    ("host", "network", "is_allowed"),
    [
        ("127.0.0.1", "127.0.0.0/8", True),
        ("192.0.2.1", "127.0.0.0/8", False),
        ("192.0.2.3", "192.0.2.9/24", True),
        ("::1", "::/64", True),
        ("::1", "192.0.2.0/24", False),
        ("", "192.0.2.0/24", False),
    ],
)
def test_a_range_of_addresses(host: str, network: str, is_allowed: bool) -> None:
    acls = AclSet([rule(Op.READ, "t", principal="User:ada", host=network)])
    assert acls.allows("User:ada", host, Op.READ, Resource(Type.TOPIC, "t")) is is_allowed


async def test_rules_are_kept_once_found_and_deleted() -> None:
    store = memory_store()
    acls = store.engine().acls
    hostile = rule(name="a\n#b/../c\x00", principal='User:"; DROP TABLE acls; --')
    for acl in (rule(), rule(), hostile, rule(Op.READ, "g", resource_type=Type.GROUP)):
        await acls.create(acl)
    assert set(await acls.list()) == {rule(), hostile, rule(Op.READ, "g", resource_type=Type.GROUP)}
    assert await acls.list(AclFilter(name="t", pattern=Pattern.MATCH)) == [rule()]
    assert await acls.delete(AclFilter(principal=hostile.principal)) == [hostile]
    assert len(await store.engine().acls.list()) == 2


async def test_rules_are_read_once_and_trusted_for_the_setting_alone() -> None:
    store = memory_store()
    reader, writer = store.engine(acl_cache_ms=5_000).acls, store.engine(1).acls
    for _ in range(3):
        assert not (await reader.current()).acls
    assert store.catalog.count("query") == 1
    await writer.create(rule())
    assert (await writer.current()).acls == (rule(),), "who changes a rule sees it at once"
    assert not (await reader.current()).acls
    store.clock.advance(5.001)
    assert (await reader.current()).acls == (rule(),)


async def test_nothing_is_allowed_while_the_rules_cannot_be_read() -> None:
    store = memory_store()
    acls = store.engine().acls
    store.catalog.script.update({("query", attempt): Fault.UNAVAILABLE for attempt in (1, 2, 3)})
    with pytest.raises(KafkaError) as refused:
        await acls.current()
    assert refused.value.is_retryable
    assert not (await acls.current()).acls, "it is tried again at the next request"


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LOST_ANSWER])
async def test_a_rule_is_written_and_deleted_in_spite_of_faults(fault: Fault) -> None:
    store = memory_store()
    acls = store.engine().acls
    store.catalog.script["put", 1] = fault
    await acls.create(rule())
    assert await acls.list() == [rule()]
    store.catalog.script["delete", 1] = fault
    await acls.delete(AclFilter())
    assert await acls.list() == []


@pytest.mark.parametrize("resource_type", [resource_type for resource_type in Type if resource_type is not Type.ANY])
def test_an_acl_that_is_listed_can_be_named_to_delete_it(resource_type: Type) -> None:
    name = "kafka-cluster" if resource_type is Type.CLUSTER else "x"
    for operation in (operation for operation in Op if operation is not Op.ANY):
        acl = rule(operation, name, resource_type=resource_type, principal="Group:ada", host="192.0.2.0/24")
        assert parse_acl(acl_row(acl)) == acl
