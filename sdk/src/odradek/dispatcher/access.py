"""The rights of the caller of one request: the ACLs (engine/access/acls.py), applied to a principal and host.

Handlers ask for every topic, group and id that a request names. A topic named by id is checked by its name. An unknown
id is passed to the engine, which refuses it: ids are random, so the refusal reveals nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from odradek.engine.access.acls import OPERATIONS
from odradek.engine.access.decisions import AclSet
from odradek.errors import ErrorCode, KafkaError
from odradek.model.acl import CLUSTER, AclOperation, Resource, ResourceType

if TYPE_CHECKING:
    from odradek.engine.catalog.topics import Topics

Q = TypeVar("Q")
R = TypeVar("R")

REFUSED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


@dataclass(frozen=True, slots=True)
class Access:
    """The rights of one caller."""

    acls: AclSet
    principal: str
    host: str
    is_bound: bool = field(init=False)  # False: may do everything, nothing needs asking
    is_unruled: bool = field(init=False)  # no rule says who administers, and it is no super user

    def __post_init__(self) -> None:
        object.__setattr__(self, "host", self.host.removeprefix("/"))
        object.__setattr__(self, "is_bound", self.acls.binds(self.principal))
        object.__setattr__(
            self, "is_unruled", not self.acls.is_ruled(CLUSTER) and not self.acls.is_super_user(self.principal)
        )

    def may(self, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Return True if the caller may do this operation on the resource."""
        return not self.is_bound or self.acls.allows(self.principal, self.host, operation, Resource(kind, name))

    def may_topic(self, operation: AclOperation, name: str) -> bool:
        return self.may(operation, ResourceType.TOPIC, name)

    def may_group(self, operation: AclOperation, group_id: str) -> bool:
        return self.may(operation, ResourceType.GROUP, group_id)

    def may_cluster(self, operation: AclOperation) -> bool:
        return self.may(operation, *CLUSTER)

    def may_any(self, operation: AclOperation, kind: ResourceType) -> bool:
        """Return True if the caller may do this operation on at least one resource of the type."""
        return not self.is_bound or self.acls.allows_any(self.principal, self.host, operation, kind)

    def operations(self, kind: ResourceType, name: str) -> int:
        """Return the caller's operations on that resource, as a bit per operation (KIP-430)."""
        return sum(1 << operation for operation in OPERATIONS[kind] if self.may(operation, kind, name))

    def require(self, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """Raise KafkaError with the type's code if the caller may not do this operation on the resource."""
        if not self.may(operation, kind, name):
            raise refusal(self.principal, operation, Resource(kind, name))

    async def names_of(self, topics: Topics, ids: Iterable[UUID | None]) -> dict[UUID, str]:
        """Return names of existing topics by id; nothing for a caller who may do everything and needs no check."""
        names = {}
        for topic_id in set(ids) if self.is_bound else ():
            topic = None if topic_id is None else await topics.get_by_id(topic_id)
            if topic is not None:
                names[topic.topic_id] = topic.name
        return names

    async def ask(
        self,
        operation: AclOperation,
        questions: Sequence[Q],
        topic_of: Callable[[Q], str | None],
        answer: Callable[[Sequence[Q]], Awaitable[Sequence[R]]],
        refuse: Callable[[Q, ErrorCode], R],
    ) -> Sequence[R]:
        """Answer the permitted questions and refuse the others; results are in the order of the questions.

        `topic_of` returns None for a question that names no existing topic.
        """
        if not self.is_bound:
            return await answer(questions)
        names = [topic_of(question) for question in questions]
        allowed = [name is None or self.may_topic(operation, name) for name in names]
        asked = [question for question, is_allowed in zip(questions, allowed, strict=True) if is_allowed]
        answers = iter(await answer(asked) if asked else ())
        return [
            next(answers) if is_allowed else refuse(question, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for question, is_allowed in zip(questions, allowed, strict=True)
        ]


def refusal(principal: str, operation: AclOperation, resource: Resource) -> KafkaError:
    """Return the error for a caller without the right. It does not reveal whether the resource exists."""
    what = resource.type.name.replace("_", " ").lower()
    return KafkaError(
        REFUSED[resource.type],
        f"{principal} may not {operation.name} the {what} {resource.name!r}: ask for an ACL (`odradek acls create`)",
    )
