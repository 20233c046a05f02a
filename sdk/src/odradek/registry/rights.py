"""Authorization for subjects. Kafka's ACLs have no subjects, so the rules of a topic apply to its subjects. Pure.

    subject                     topic                     because
    orders-value, orders-key    orders                    the default of every serializer (TopicNameStrategy)
    com.shop.Order, others      of the subject's name     its rules are written like those of a topic

    read a subject, its versions, a schema by its id;     DESCRIBE topic (which READ and WRITE imply)
    check compatibility
    register                                              WRITE topic
    delete                                                DELETE topic
    a subject's configuration and mode                    DESCRIBE_CONFIGS, ALTER_CONFIGS topic
    the registry's configuration and mode                 DESCRIBE_CONFIGS, ALTER_CONFIGS cluster

So a principal that may write a topic may register its schemas, and one that may read the topic may look them up; the
registry needs no rules of its own. Reading a schema by its id requires DESCRIBE on one of its subjects.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.dispatcher.access import Access
from odradek.model.acl import CLUSTER, AclOperation, ResourceType
from odradek.registry.errors import RegistryError

_SUFFIXES = ("-key", "-value")


def topic_of(subject: str) -> str:
    """Return the topic whose rules apply to a subject."""
    for suffix in _SUFFIXES:
        if subject.endswith(suffix) and len(subject) > len(suffix):
            return subject.removesuffix(suffix)
    return subject


def may(access: Access, operation: AclOperation, subject: str | None) -> bool:
    """Return True if the caller is allowed an operation on a subject, or on the registry (None)."""
    if subject is None:
        return access.may(operation, *CLUSTER)
    return access.may(operation, ResourceType.TOPIC, topic_of(subject))


def require(access: Access, operation: AclOperation, subject: str | None) -> None:
    """Raise RegistryError(40301) if the caller is not allowed the operation."""
    if not may(access, operation, subject):
        resource = "the cluster" if subject is None else f"the topic {topic_of(subject)!r}"
        raise RegistryError(
            40301, f"{access.principal} may not {operation.name} {resource}: ask for an ACL (`odradek acls create`)"
        )


def may_read_any(access: Access, subjects: Iterable[str]) -> bool:
    """Return True if the caller may read a schema that is registered under these subjects."""
    return not access.is_bound or any(may(access, AclOperation.DESCRIBE, subject) for subject in subjects)
