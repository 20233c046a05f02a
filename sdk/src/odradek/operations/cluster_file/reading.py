"""YAML -> the contents of a cluster file. Every mistake is told with its line, all of them at once.

The text is composed into nodes, which know their lines, and never constructed into objects: a scalar's own text is the
value of a configuration, so `86400000` and `"86400000"` are the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from odradek.client.serializers.registry import SchemaReference
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra
from odradek.model.acl import AclBinding
from odradek.model.quota import ADDRESS_QUOTAS, CLIENT_QUOTAS, DEFAULT, QuotaEntity
from odradek.operations.cluster_file.contents import (
    EVERY_OTHER,
    SECTIONS,
    ClusterFile,
    SchemaEntry,
    SqlEntry,
    TopicEntry,
    UserEntry,
)
from odradek.operations.cluster_file.statements import defining_statements
from odradek.operations.schemas import KINDS, LEVELS
from odradek.operations.security import RESOURCES, AclRow, parse_acl

V = TypeVar("V")

_TAG = "tag:yaml.org,2002:"
_QUOTAS = (*CLIENT_QUOTAS, *ADDRESS_QUOTAS)
_PATTERNS = ("literal", "prefixed")


class _Wrong(Exception):
    """A mistake that is in the list of problems already: the item is left out."""


def read_file(path: Path) -> ClusterFile:
    """Read a cluster file; files that it names are relative to its folder.

    Raises:
        KafkaError: INVALID_CONFIG with a line for each mistake.
        MissingExtra: the library for YAML is not installed.
        OSError: it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{path} is not UTF-8 text") from None
    return read(text, str(path), path.parent)


def read(text: str, name: str = "the file", folder: Path = Path()) -> ClusterFile:
    """Read the text of a cluster file. Args: name: for messages. Raises as `read_file`."""
    with extra("cli"):
        import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name}:{line}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is not YAML: {str(error).splitlines()[0]}") from None
    reader = _Reader(name, folder)
    contents = ClusterFile() if root is None else reader.contents(root)
    if reader.problems:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "\n".join(reader.problems))
    return contents


class _Reader:
    """Nodes of YAML -> contents. `problems` has a line for each mistake."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name, self._folder = name, folder
        self.problems: list[str] = []

    def contents(self, root: Any) -> ClusterFile:
        """Return the contents of a document."""
        sections: dict[str, Any] = {}
        try:
            nodes = self._mapping(root, "the file", SECTIONS)
        except _Wrong:
            return ClusterFile()
        for name, node in nodes.items():
            try:
                sections[name] = getattr(self, f"_{name}")(node)
            except _Wrong:
                continue
        return ClusterFile(**sections)

    # --- sections

    def _topics(self, node: Any) -> Mapping[str, TopicEntry]:
        return self._named(node, "topics", self._topic)

    def _topic(self, node: Any, path: str) -> TopicEntry:
        fields = self._mapping(node, path, ("partitions", "configs"))
        partitions = self._whole(fields["partitions"], f"{path}.partitions") if "partitions" in fields else None
        return TopicEntry(partitions, self._texts(fields.get("configs"), f"{path}.configs"))

    def _users(self, node: Any) -> Mapping[str, UserEntry]:
        return self._named(node, "users", self._user)

    def _user(self, node: Any, path: str) -> UserEntry:
        fields = self._mapping(node, path, ("password_env", "password_file", "password"))
        if "password" in fields:
            raise self._wrong(fields["password"], f"{path}: a cluster file holds no password: name the environment "
                              "variable (password_env) or the file (password_file) that has it")  # fmt: skip
        env, file = (self._text(fields[key], f"{path}.{key}") if key in fields else "" for key in
                     ("password_env", "password_file"))  # fmt: skip
        return UserEntry(env, str(self._folder / file) if file else "")

    def _acls(self, node: Any) -> frozenset[AclBinding]:
        acls: set[AclBinding] = set()
        for item, path in self._items(node, "acls"):
            try:
                acls |= self._acl(item, path)
            except _Wrong:
                continue
        return frozenset(acls)

    def _acl(self, node: Any, path: str) -> set[AclBinding]:
        fields = self._mapping(node, path, ("principal", "allow", "deny", *RESOURCES, "pattern", "host"))
        permission = self._one_of(node, fields, path, ("allow", "deny"))
        resource = self._one_of(node, fields, path, tuple(RESOURCES))
        if "principal" not in fields:
            raise self._wrong(node, f"{path} needs a principal, such as User:ada")
        pattern = self._choice(fields, "pattern", path, _PATTERNS) or "literal"
        principal = self._text(fields["principal"], f"{path}.principal")
        host = self._text(fields["host"], f"{path}.host") if "host" in fields else ""
        name = "" if resource == "cluster" else self._text(fields[resource], f"{path}.{resource}")
        acls = set()
        for operation, at in self._text_list(fields[permission], f"{path}.{permission}"):
            row = AclRow(principal, host, permission, operation, resource, name, pattern)
            try:
                acls.add(parse_acl(row))
            except KafkaError as error:
                raise self._wrong(at, f"{path}: {error.message}") from None
        return acls

    def _quotas(self, node: Any) -> Mapping[QuotaEntity, Mapping[str, float]]:
        quotas: dict[QuotaEntity, dict[str, float]] = {}
        for item, path in self._items(node, "quotas"):
            try:
                entity, values = self._quota(item, path)
            except _Wrong:
                continue
            quotas.setdefault(entity, {}).update(values)
        return quotas

    def _quota(self, node: Any, path: str) -> tuple[QuotaEntity, dict[str, float]]:
        fields = self._mapping(node, path, (*QuotaEntity._fields, *_QUOTAS))
        names = {key: self._text(fields[key], f"{path}.{key}") for key in QuotaEntity._fields if key in fields}
        if not names:
            raise self._wrong(node, f"{path} needs one of {', '.join(QuotaEntity._fields)}; {EVERY_OTHER} is every "
                              "other one")  # fmt: skip
        values = {key: self._number(fields[key], f"{path}.{key}") for key in _QUOTAS if key in fields}
        return QuotaEntity(**{key: DEFAULT if name == EVERY_OTHER else name for key, name in names.items()}), values

    def _schemas(self, node: Any) -> Mapping[str, SchemaEntry]:
        return self._named(node, "schemas", self._schema)

    def _schema(self, node: Any, path: str) -> SchemaEntry:
        fields = self._mapping(node, path, ("type", "compatibility", "schema", "file", "references"))
        if self._one_of(node, fields, path, ("schema", "file")) == "file":
            text = self._file(fields["file"], f"{path}.file")
        else:
            text = self._text(fields["schema"], f"{path}.schema")
        references = []
        for item, at in self._items(fields["references"], f"{path}.references") if "references" in fields else ():
            reference = self._mapping(item, at, ("name", "subject", "version"))
            if missing := {"name", "subject", "version"} - reference.keys():
                raise self._wrong(item, f"{at} needs {', '.join(sorted(missing))}")
            name, subject = (self._text(reference[key], f"{at}.{key}") for key in ("name", "subject"))
            references.append(SchemaReference(name, subject, self._whole(reference["version"], f"{at}.version")))
        return SchemaEntry(
            text,
            self._choice(fields, "type", path, KINDS) or KINDS[0],
            self._choice(fields, "compatibility", path, LEVELS),
            tuple(references),
        )

    def _connectors(self, node: Any) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
        return self._named(node, "connectors", lambda group, path: self._named(group, path, self._connector))

    def _connector(self, node: Any, path: str) -> dict[str, str]:
        config = self._texts(node, path)
        if "connector.class" not in config:
            raise self._wrong(node, f"{path} needs a connector.class")
        return config

    def _sql(self, node: Any) -> SqlEntry:
        fields = self._mapping(node, "sql", ("server", "statements", "files", "properties"))
        if "server" not in fields:
            raise self._wrong(node, "sql needs a server, such as http://127.0.0.1:8088 (odradek sql-server)")
        scripts = []
        if "statements" in fields:
            at = fields["statements"]
            scripts.append((at, self._text(at, "sql.statements")))
        for text, at in self._text_list(fields["files"], "sql.files") if "files" in fields else ():
            scripts.append((at, self._content(at, "sql.files", text)))
        statements: list[str] = []
        for at, script in scripts:
            try:
                statements += defining_statements(script)
            except KafkaError as error:
                raise self._wrong(at, f"sql: {error.message}") from None
        properties = self._texts(fields.get("properties"), "sql.properties")
        return SqlEntry(self._text(fields["server"], "sql.server"), tuple(statements), properties)

    # --- nodes

    def _wrong(self, node: Any, problem: str) -> _Wrong:
        self.problems.append(f"{self._name}:{node.start_mark.line + 1}: {problem}")
        return _Wrong()

    def _mapping(self, node: Any, path: str, known: Collection[str] = ()) -> dict[str, Any]:
        """Return the nodes of a mapping by key; {} for an empty value."""
        if _is_null(node):
            return {}
        if node.id != "mapping":
            raise self._wrong(node, f"{path} must be a mapping of names to values")
        nodes: dict[str, Any] = {}
        wrong: _Wrong | None = None
        for key_node, value in node.value:
            key = self._text(key_node, f"a name in {path}")
            if key in nodes:
                wrong = self._wrong(key_node, f"{path} has {key!r} twice")
            if known and key not in known:
                close = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean {close[0]}?" if close else f"use {', '.join(known)}"
                wrong = self._wrong(key_node, f"{path} has no {key!r}: {hint}")
            nodes[key] = value
        if wrong is not None:
            raise wrong
        return nodes

    def _named(self, node: Any, path: str, entry: Callable[[Any, str], V]) -> dict[str, V]:
        entries = {}
        for name, item in self._mapping(node, path).items():
            try:
                entries[name] = entry(item, f"{path}.{name}")
            except _Wrong:
                continue
        return entries

    def _items(self, node: Any, path: str) -> Iterator[tuple[Any, str]]:
        """Yield the nodes of a list, and their paths."""
        if _is_null(node):
            return
        if node.id != "sequence":
            raise self._wrong(node, f"{path} must be a list")
        for number, item in enumerate(node.value):
            yield item, f"{path}[{number}]"

    def _text_list(self, node: Any, path: str) -> list[tuple[str, Any]]:
        """Return the texts of a list, or of one text alone, and their nodes."""
        if node.id == "scalar":
            return [(self._text(node, path), node)]
        return [(self._text(item, at), item) for item, at in self._items(node, path)]

    def _texts(self, node: Any, path: str) -> dict[str, str]:
        """Return a mapping of scalars as text."""
        if node is None:
            return {}
        return {key: self._text(value, f"{path}.{key}") for key, value in self._mapping(node, path).items()}

    def _text(self, node: Any, path: str) -> str:
        if node.id != "scalar":
            raise self._wrong(node, f"{path} must be a text or a number, not a {node.id}")
        if _is_null(node):
            raise self._wrong(node, f"{path} is empty")
        text = str(node.value)
        return text.lower() if node.tag == f"{_TAG}bool" else text

    def _whole(self, node: Any, path: str) -> int:
        text = self._text(node, path)
        if node.tag != f"{_TAG}int" or not text.isdecimal() or int(text) < 1:
            raise self._wrong(node, f"{path} must be a whole number from 1, not {text!r}")
        return int(text)

    def _number(self, node: Any, path: str) -> float:
        text = self._text(node, path)
        try:
            return float(text)
        except ValueError:
            raise self._wrong(node, f"{path} must be a number, not {text!r}") from None

    def _choice(self, fields: Mapping[str, Any], key: str, path: str, allowed: Collection[str]) -> str:
        """Return the value of a field, "" if it is not there."""
        if key not in fields:
            return ""
        text = self._text(fields[key], f"{path}.{key}")
        if text not in allowed:
            raise self._wrong(fields[key], f"{path}.{key} must be one of {', '.join(allowed)}, not {text!r}")
        return text

    def _one_of(self, node: Any, fields: Mapping[str, Any], path: str, names: Collection[str]) -> str:
        """Return which of some fields is there."""
        present = [name for name in names if name in fields]
        if len(present) != 1:
            raise self._wrong(node, f"{path} needs one of {', '.join(names)}")
        return present[0]

    def _file(self, node: Any, path: str) -> str:
        return self._content(node, path, self._text(node, path))

    def _content(self, node: Any, path: str, name: str) -> str:
        try:
            return (self._folder / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise self._wrong(node, f"{path}: {self._folder / name}: {reason}") from None


def _is_null(node: Any) -> bool:
    return bool(node.id == "scalar" and node.tag == f"{_TAG}null")
