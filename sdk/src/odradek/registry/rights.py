"""Who may do what with a subject. Kafka's ACLs know no subjects, so a subject counts as a topic. Pure.

    subject                     topic                     because
    orders-value, orders-key    orders                    the default of every serializer (TopicNameStrategy)
    com.shop.Order, others      of the subject's name     a rule for it is written like one for a topic

    read a subject, its versions, a schema by its id;     DESCRIBE topic (which READ and WRITE imply)
    try compatibility
    register                                              WRITE topic
    delete                                                DELETE topic
    a subject's configuration and mode                    DESCRIBE_CONFIGS, ALTER_CONFIGS topic
    the registry's configuration and mode                 DESCRIBE_CONFIGS, ALTER_CONFIGS cluster

So whoever may write a topic may register its schemas, and whoever may read it may look them up: no rule has to be added
for the registry. A schema may be read by its id by who may describe one of its subjects.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.dispatcher.access import Access
from odradek.model.acl import CLUSTER, AclOperation, ResourceType
from odradek.registry.errors import RegistryError

_SUFFIXES = ("-key", "-value")


def topic_of(subject: str) -> str:
    """The topic whose rules hold for a subject."""
    for suffix in _SUFFIXES:
        if subject.endswith(suffix) and len(subject) > len(suffix):
            return subject.removesuffix(suffix)
    return subject


def may(access: Access, operation: AclOperation, subject: str | None) -> bool:
    """Whether the caller may do this with a subject, or with the registry (None)."""
    if subject is None:
        return access.may(operation, *CLUSTER)
    return access.may(operation, ResourceType.TOPIC, topic_of(subject))


def require(access: Access, operation: AclOperation, subject: str | None) -> None:
    """Raises RegistryError(40301) where the caller may not."""
    if not may(access, operation, subject):
        what = "the cluster" if subject is None else f"the topic {topic_of(subject)!r}"
        raise RegistryError(
            40301, f"{access.principal} may not {operation.name} {what}: ask for an ACL (`odradek acls create`)"
        )


def may_read_any(access: Access, subjects: Iterable[str]) -> bool:
    """Whether the caller may read a schema that these subjects have."""
    return not access.is_bound or any(may(access, AclOperation.DESCRIBE, each) for each in subjects)
