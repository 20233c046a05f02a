"""Decides what turns the present contents of a service into those of a cluster file. Pure.

Order: topics, users, quotas, schemas, connectors, SQL, then ACLs, since the first ACL may shut out whoever applies the
file; deletions come last, in reverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from odradek.model.acl import AclBinding
from odradek.model.quota import QuotaEntity
from odradek.operations.cluster_file import statements
from odradek.operations.cluster_file.contents import (
    ClusterFile,
    SchemaEntry,
    SqlEntry,
    TopicEntry,
    UserEntry,
    entity_text,
)
from odradek.operations.connectors import HIDDEN, shown_value
from odradek.operations.schemas import pretty
from odradek.operations.security import acl_row


class Action(StrEnum):
    """The change of an entry."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of an entry that changes; None: it is not there."""

    field: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one entry of a section.

    `before` and `after` are entries of contents.py, an AclBinding, the values of a quota, or the text of a statement;
    None: it is not there.
    """

    action: Action
    section: str
    name: str  # for people: "topic orders"
    key: Any  # of the entry in its section
    before: Any
    after: Any
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Changes to make, and obstacles."""

    changes: tuple[Change, ...]
    beyond: tuple[str, ...]  # entries and configurations that the file does not have, and that stay
    problems: tuple[str, ...]  # why the plan cannot be carried out


def make_plan(wanted: ClusterFile, present: ClusterFile, *, prune: bool = False) -> Plan:
    """Return the changes that make a service as a file says.

    Args:
        wanted: of the file.
        present: of the service, with the sections of the file.
        prune: delete what the file does not have, within its sections.
    """
    making = _Making(prune)
    if present.topics is not None and present.sql is not None:  # topics of streams and tables are their statements'
        own = present.sql.topics - (wanted.topics or {}).keys()
        present = replace(present, topics={name: entry for name, entry in present.topics.items() if name not in own})
    for section in wanted.sections:
        getattr(making, f"_{section}")(getattr(wanted, section), getattr(present, section))
    deletions = [change for change in making.changes if change.action is Action.DELETE]
    return Plan(
        tuple(change for change in making.changes if change.action is not Action.DELETE) + tuple(reversed(deletions)),
        tuple(making.beyond),
        tuple(making.problems),
    )


class _Making:
    """A plan as it grows, section by section."""

    def __init__(self, prune: bool) -> None:
        self._prune = prune
        self.changes: list[Change] = []
        self.beyond: list[str] = []
        self.problems: list[str] = []

    def _topics(self, after: Mapping[str, TopicEntry], before: Mapping[str, TopicEntry]) -> None:
        for name, entry in after.items():
            existing = before.get(name)
            if existing is None:
                self._add(
                    Action.CREATE, "topics", f"topic {name}", name, None, entry, _of_topic(TopicEntry(None), entry)
                )
                continue
            if entry.partitions is not None and existing.partitions and entry.partitions < existing.partitions:
                self.problems.append(
                    f"topic {name} has {existing.partitions} partitions, and they cannot become {entry.partitions}: "
                    "create another topic"
                )
                continue
            self._compare("topics", f"topic {name}", name, existing, entry, _of_topic(existing, entry))
        self._surplus("topics", "topic ", before, after)

    def _users(self, after: Mapping[str, UserEntry], before: Mapping[str, UserEntry]) -> None:
        for name, entry in after.items():
            if name in before:
                continue
            if not entry.password_env and not entry.password_file:
                self.problems.append(f"user {name} does not exist and needs a password: password_env or password_file")
            self._add(Action.CREATE, "users", f"user {name}", name, None, entry)
        self._surplus("users", "user ", before, after)

    def _acls(self, after: frozenset[AclBinding], before: frozenset[AclBinding]) -> None:
        for acl in sorted(after - before, key=acl_text):
            self._add(Action.CREATE, "acls", acl_text(acl), acl, None, acl)
        for acl in sorted(before - after, key=acl_text):
            if self._prune:
                self._add(Action.DELETE, "acls", acl_text(acl), acl, acl, None)
            else:
                self.beyond.append(acl_text(acl))

    def _quotas(
        self,
        after: Mapping[QuotaEntity, Mapping[str, float]],
        before: Mapping[QuotaEntity, Mapping[str, float]],
    ) -> None:
        for entity, values in after.items():
            existing = before.get(entity, {})
            name = f"quotas of {entity_text(entity)}"
            differences = list(self._of_mapping(name, "", existing, values))
            action = Action.CHANGE if existing else Action.CREATE
            if differences:
                self._add(action, "quotas", name, entity, existing, values, tuple(differences))
        for entity, values in before.items():
            if entity not in after:
                name = f"quotas of {entity_text(entity)}"
                if self._prune:
                    self._add(Action.DELETE, "quotas", name, entity, values, {})
                else:
                    self.beyond.append(name)

    def _schemas(self, after: Mapping[str, SchemaEntry], before: Mapping[str, SchemaEntry]) -> None:
        for name, entry in after.items():
            existing = before.get(name)
            if existing is None:
                self._add(Action.CREATE, "schemas", f"subject {name}", name, None, entry,
                          (Difference("type", None, entry.type),))  # fmt: skip
                continue
            if any(_same_schema(text, entry) for text in existing.older) and not _same_schema(existing.text, entry):
                self.problems.append(
                    f"subject {name} has this schema as an older version: registering it again changes nothing; delete "
                    "the later versions, or change the schema"
                )
                continue
            self._compare("schemas", f"subject {name}", name, existing, entry, _of_schema(existing, entry))
        self._surplus("schemas", "subject ", before, after)

    def _connectors(
        self,
        after: Mapping[str, Mapping[str, Mapping[str, str]]],
        before: Mapping[str, Mapping[str, Mapping[str, str]]],
    ) -> None:
        for group, connectors in after.items():
            existing = before.get(group, {})
            for name, config in connectors.items():
                title, old = f"connector {name}", existing.get(name)
                hidden = [key for key, value in config.items() if value == HIDDEN]
                if missing := [key for key in hidden if key not in (old or {})]:
                    self.problems.append(
                        f"{title} needs a value for {', '.join(missing)}, or a reference to a secret: "
                        "${provider:path:key}"
                    )
                    continue
                differences = _of_connector(old or {}, config)
                if old is None or differences:
                    action = Action.CREATE if old is None else Action.CHANGE
                    self._add(action, "connectors", title, (group, name), old, config, differences)
            for name in existing.keys() - connectors.keys():
                if self._prune:
                    self._add(Action.DELETE, "connectors", f"connector {name}", (group, name), existing[name], None)
                else:
                    self.beyond.append(f"connector {name}")

    def _sql(self, after: SqlEntry, before: SqlEntry) -> None:
        wanted, existing = statements.by_definition(after.statements), statements.by_definition(before.statements)
        for name in statements.in_order(wanted):
            text, shown = wanted[name], statements.title(name)
            if name.startswith("insert/"):
                if not any(
                    statements.same(text, other) for key, other in existing.items() if key.startswith("insert/")
                ):
                    self._add(Action.CREATE, "sql", shown, name, None, text)
            elif name.startswith("type/"):  # a server does not tell how a type was written
                if name.partition("/")[2] not in before.types:
                    self._add(Action.CREATE, "sql", shown, name, None, text)
            elif name not in existing:
                self._add(Action.CREATE, "sql", shown, name, None, text)
            elif existing[name] and not statements.same(text, existing[name]):
                differences = (Difference("statement", " ".join(existing[name].split()), " ".join(text.split())),)
                self._add(Action.CHANGE, "sql", shown, name, existing[name], text, differences)
        for name in statements.in_order(existing):
            is_wanted = name in wanted or (
                name.startswith("insert/") and any(statements.same(existing[name], text) for text in wanted.values())
            )
            if not is_wanted and self._prune:
                self._add(Action.DELETE, "sql", statements.title(name), name, existing[name], None)
            elif not is_wanted:
                self.beyond.append(statements.title(name))

    # --- parts

    def _add(
        self, action: Action, section: str, name: str, key: Any, before: Any, after: Any,
        differences: Iterable[Difference] = (),
    ) -> None:  # fmt: skip
        self.changes.append(Change(action, section, name, key, before, after, tuple(differences)))

    def _compare(
        self, section: str, name: str, key: Any, before: Any, after: Any, differences: Iterable[Difference]
    ) -> None:
        """Add a change if something differs; what only the service has counts where it is pruned."""
        counted = []
        for difference in differences:
            if difference.after is not None or self._prune:
                counted.append(difference)
            else:
                self.beyond.append(f"{name}: {difference.field} {difference.before}")
        if counted:
            self._add(Action.CHANGE, section, name, key, before, after, counted)

    def _of_mapping(
        self, name: str, prefix: str, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> Iterator[Difference]:
        for difference in _differences(before, after, prefix):
            if difference.after is not None or self._prune:
                yield difference
            else:
                self.beyond.append(f"{name}: {difference.field} {difference.before}")

    def _surplus(self, section: str, title: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        for key, entry in before.items():
            if key not in after and self._prune:
                self._add(Action.DELETE, section, f"{title}{key}", key, entry, None)
            elif key not in after:
                self.beyond.append(f"{title}{key}")


def _differences(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> Iterator[Difference]:
    """Yield the names whose values differ: those of `after` in its order, then those that only `before` has."""
    for name, value in after.items():
        if before.get(name) != value:
            yield Difference(f"{prefix}{name}", _text(before.get(name)), _text(value))
    for name, value in before.items():
        if name not in after:
            yield Difference(f"{prefix}{name}", _text(value), None)


def _of_topic(before: TopicEntry, after: TopicEntry) -> tuple[Difference, ...]:
    differences = list(_differences(before.configs, after.configs))
    if after.partitions is not None and after.partitions != before.partitions:
        differences.insert(0, Difference("partitions", _text(before.partitions), _text(after.partitions)))
    return tuple(differences)


def _of_schema(before: SchemaEntry, after: SchemaEntry) -> tuple[Difference, ...]:
    differences = []
    if after.compatibility != before.compatibility:  # without one in the file it returns to the default, if pruned
        differences.append(Difference("compatibility", before.compatibility or None, after.compatibility or None))
    if before.type != after.type or before.references != after.references or not _same_schema(before.text, after):
        differences.append(Difference("schema", pretty(before.text), pretty(after.text)))
    return tuple(differences)


def _same_schema(text: str, entry: SchemaEntry) -> bool:
    return pretty(text).split() == pretty(entry.text).split()


def _of_connector(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Difference, ...]:
    """A connector's configuration is replaced as a whole: what the file does not name is removed in any case."""
    kept = {"name", *(name for name, value in after.items() if value == HIDDEN)}
    wanted, existing = ({key: value for key, value in config.items() if key not in kept} for config in (after, before))
    return tuple(
        Difference(
            difference.field,
            None if difference.before is None else shown_value(difference.field, difference.before),
            "(removed)" if difference.after is None else shown_value(difference.field, difference.after),
        )
        for difference in _differences(existing, wanted)
    )


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)


def acl_text(acl: AclBinding) -> str:
    """Return an ACL for people: `acl allow User:ada read on topic orders`."""
    row = acl_row(acl)
    pattern = " (prefix)" if row.pattern == "prefixed" else ""
    host = "" if row.host == "*" else f" from {row.host}"
    name = "" if row.resource == "cluster" else f" {row.name}"
    return f"acl: {row.may} {row.principal} {row.operation} on {row.resource}{name}{pattern}{host}"
