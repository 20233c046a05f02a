"""The registry's procedures: register, look up, delete, configure; short loops over conditional writes.

A new schema is registered in ONE transaction:

    counter        next == id             next = id + 1          ids are dense, and no two schemas have one
    guid row       absent                 id                     no schema has two
    schema row     absent                 text, references
    subject row    rev as it was read     one version more       so its checks still hold
    referred to    rev as it was read     the version is used    a version in use is not deleted

After a failure the rows are read and the decision is repeated, a bounded number of times. This also resolves a
transaction whose outcome is unknown: if it was applied, the subject has the schema, and that is the answer. A schema
that the subject already has is not written. Concurrent registrations of one schema conflict at the guid row, those
under one subject at the subject row.

A deletion writes one row, the subject's. It first looks up all schemas that ever referred to the version; a reference
that is added in between changes the revision, so the write is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from odradek.backoff import Backoff
from odradek.errors import ConditionFailed, ItemTooLarge, OutcomeUnknown, StoreUnavailable, TransactionCanceled
from odradek.format.item_keys import REGISTRY_SUBJECTS_PK
from odradek.limits import (
    SCHEMA_BYTES_MAX,
    SCHEMA_REFERENCES_MAX,
    SUBJECT_NAME_BYTES_MAX,
    SUBJECT_VERSIONS_MAX,
)
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import Absent, Compare, Condition, Item, Key, Operation, Put, Set, Table, Update
from odradek.registry import errors
from odradek.registry.beside import Beside
from odradek.registry.budget import Budget
from odradek.registry.compatibility import DEFAULT_LEVEL, Level, compared, problems
from odradek.registry.rows import (
    COUNTER,
    SUBJECTS_NAMED_MAX,
    Config,
    StoredSchema,
    Subject,
    SubjectVersion,
    config_key,
    decode_config,
    decode_schema,
    decode_subject,
    encode_config,
    encode_schema,
    encode_subject,
    guid_key,
    schema_key,
    subject_key,
)
from odradek.registry.schemas import Parsed, ReferencedText, Schema, normalized, parse

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
_ATTEMPTS = 30
_SCHEMAS_KEPT = 1_000
_REFERENCED_MAX = 500  # schemas that one schema needs, directly or indirectly


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema as a version of a subject."""

    subject: str
    version: int
    stored: StoredSchema


class Subjects:
    """The registry over the catalog table. Every method refuses a request by RegistryError, and by nothing else."""

    def __init__(self, catalog: Table, clock: Clock, rng: Rng) -> None:
        self._catalog = catalog
        self._backoff = Backoff(clock, rng, first_s=0.01, max_s=0.3)
        self._beside = Beside()
        self._schemas: dict[int, StoredSchema] = {}  # text and references of an id never change

    # --- reading ------------------------------------------------------------------------------------------------------

    async def names(self, prefix: str = "", *, deleted: bool = False, deleted_only: bool = False) -> list[str]:
        """List subjects with live versions; `deleted` adds those that have only soft-deleted ones."""
        names = []
        for subject in await self._all():
            if not subject.versions or not subject.name.startswith(prefix):
                continue
            is_live = bool(subject.live)
            if (deleted_only and not is_live) or (not deleted_only and (is_live or deleted)):
                names.append(subject.name)
        return names

    async def versions(self, name: str, *, deleted: bool = False, deleted_only: bool = False) -> list[int]:
        """List the versions of a subject."""
        subject = await self._subject(name)
        if deleted_only:
            numbers = [version.version for version in subject.versions if version.is_deleted]
        else:
            numbers = [version.version for version in (subject.versions if deleted else subject.live)]
        if not numbers:
            raise errors.subject_not_found(name)
        return numbers

    async def version(self, name: str, version: int | None, *, deleted: bool = False) -> Registered:
        """Return a version of a subject; None is the latest."""
        subject = await self._subject(name)
        return await self._registered(subject, _pick(subject, version, deleted=deleted))

    async def history(self, name: str) -> list[Registered]:
        """List the versions of a subject up to its latest one that is not deleted; deleted ones before it, too."""
        subject = await self._subject(name)
        last = subject.live[-1].version if subject.live else 0
        return [await self._registered(subject, version) for version in subject.versions if version.version <= last]

    async def schema(self, schema_id: int) -> StoredSchema:
        """Return the schema of an id, even if no subject has it any more. Its list of subjects may be outdated."""
        kept = self._schemas.get(schema_id)
        return kept if kept is not None else await self._read_schema(schema_id)

    async def fresh_schema(self, schema_id: int) -> StoredSchema:
        """Return the schema of an id with its current list of subjects."""
        return await self._read_schema(schema_id)

    async def schema_by_guid(self, guid: UUID) -> StoredSchema:
        item = await self._get(guid_key(guid))
        if item is None or not isinstance(item.get("id"), int):
            raise errors.RegistryError(40403, f"Schema {guid} not found")
        return await self.schema(int(str(item["id"])))

    async def uses(self, schema_id: int, *, deleted: bool = False) -> list[tuple[str, int]]:
        """List the subjects and versions that have a schema."""
        stored = await self._read_schema(schema_id)
        subjects = await self._all() if stored.has_more else [await self._subject(name) for name in stored.subjects]
        return [
            (subject.name, version.version)
            for subject in subjects
            for version in (subject.versions if deleted else subject.live)
            if version.schema_id == schema_id
        ]

    async def schemas(self, prefix: str = "", *, deleted: bool = False, latest_only: bool = False) -> list[Registered]:
        """List every version of the subjects with a prefix."""
        schemas = []
        for subject in await self._all():
            if subject.name.startswith(prefix):
                versions = subject.versions if deleted else subject.live
                schemas += [
                    await self._registered(subject, version) for version in (versions[-1:] if latest_only else versions)
                ]
        return schemas

    async def referenced_by(self, name: str, version: int | None) -> list[int]:
        """List the ids of registered schemas that refer to a version."""
        subject = await self._subject(name)
        return await self._live_referrers(_pick(subject, version, deleted=True))

    async def lookup(self, name: str, schema: Schema, *, normalize: bool = False, deleted: bool = False) -> Registered:
        """Return the version of a subject that has a schema."""
        subject = await self._subject(name)
        if not (subject.versions if deleted else subject.live):
            raise errors.subject_not_found(name)
        parsed = await self._parse(schema, normalize=await self._normalizes(name, normalize))
        version = await self._find(subject, parsed, deleted=deleted)
        if version is None:
            raise errors.schema_not_found()
        return await self._registered(subject, version)

    async def check(
        self, name: str, schema: Schema, *, version: int | None = None, every: bool = False, normalize: bool = False
    ) -> list[str]:
        """List a schema's incompatibilities with a version (None: the latest) or all that the level compares."""
        subject = await self._subject(name)
        level = (await self.effective(name)).level or DEFAULT_LEVEL
        parsed = await self._parse(schema, normalize=await self._normalizes(name, normalize))
        if every:
            return await self._problems(level, parsed, subject)
        chosen = _pick(subject, version, deleted=False)
        old = await self.parsed(await self.schema(chosen.schema_id))
        return await self._beside.run(lambda budget: problems(level, parsed, old, budget))

    async def parsed(self, stored: StoredSchema) -> Parsed:
        """Parse a stored schema."""
        texts = await self.texts(stored.schema)
        return await self._beside.run(lambda budget: parse(stored.schema, texts, budget))

    # --- configuration ------------------------------------------------------------------------------------------------

    async def config(self, name: str | None) -> Config:
        """Return the configuration of a subject, or of the registry (None), without defaults."""
        _check_name(name)
        return decode_config(await self._get(config_key(name)))

    async def effective(self, name: str | None) -> Config:
        """Return the configuration in effect for a subject: its own, or the registry's where it has none."""
        own = Config() if name is None else await self.config(name)
        common = await self.config(None)
        return Config(
            own.level or common.level or DEFAULT_LEVEL,
            common.mode if common.mode == "READONLY_OVERRIDE" else own.mode or common.mode or MODES[0],
            common.normalize if own.normalize is None else own.normalize,
        )

    async def set_config(self, name: str | None, *, level: Level | None, normalize: bool | None = None) -> None:
        """Set the compatibility level, whether schemas are normalized, or both."""
        _check_name(name)
        await self._change_config(
            name,
            lambda config: replace(
                config,
                level=config.level if level is None else level,
                normalize=config.normalize if normalize is None else normalize,
            ),
        )

    async def clear_config(self, name: str | None) -> Config:
        """Remove level and normalization; return the configuration before."""
        before = await self.config(name)
        if name is not None and before.level is None and before.normalize is None:
            raise errors.no_subject_compatibility(name)
        await self._change_config(name, lambda config: replace(config, level=None, normalize=None))
        return before

    async def set_mode(self, name: str | None, mode: str, *, force: bool = False) -> None:
        """Set the mode. IMPORT is refused where schemas exist, unless it is forced."""
        _check_name(name)
        if mode == "IMPORT" and not force:
            contents = await self.names() if name is None else (await self._subject(name)).live
            if contents:
                raise errors.not_permitted("Cannot import since there are schemas already; use force=true")
        await self._change_config(name, lambda config: replace(config, mode=mode))

    async def clear_mode(self, name: str | None) -> str:
        """Remove the mode; return the one before."""
        before = await self.config(name)
        if name is not None and before.mode is None:
            raise errors.no_subject_mode(name)
        await self._change_config(name, lambda config: replace(config, mode=None))
        return before.mode or MODES[0]

    # --- writing ------------------------------------------------------------------------------------------------------

    async def register(
        self,
        name: str,
        schema: Schema,
        *,
        normalize: bool = False,
        schema_id: int | None = None,
        version: int | None = None,
    ) -> Registered:
        """Register a schema as the next version of a subject, or return the version that already has it.

        Args:
            schema_id, version: only in mode IMPORT: the id and the version that the schema gets.
        """
        _check_name(name)
        config = await self.effective(name)
        self._check_mode(name, config, schema_id, version)
        parsed = await self._parse(schema, normalize=normalize or bool(config.normalize))
        for attempt in range(_ATTEMPTS):
            subject = await self._subject(name)
            version_found = await self._find(subject, parsed, deleted=False)
            if version_found is not None and (schema_id is None or schema_id == version_found.schema_id):
                return await self._registered(subject, version_found)
            if version_found is not None:
                raise errors.id_does_not_match(schema_id or 0)
            if schema_id is None and version is None:
                messages = await self._problems(config.level or DEFAULT_LEVEL, parsed, subject)
                if messages:
                    raise errors.incompatible(messages)
            made, operations = await self._registration(subject, parsed, schema_id, version)
            if await self._transact(operations, attempt):
                return Registered(name, made.version, await self._read_schema(made.schema_id))
        raise errors.store_unavailable()

    async def delete_version(self, name: str, version: int | None, *, permanent: bool = False) -> int:
        """Delete a version softly (only deleted=true shows it), or delete a soft-deleted version permanently."""
        await self._check_writable(name)
        was_unknown = False
        for attempt in range(_ATTEMPTS):
            subject = await self._subject(name)
            if was_unknown and version is not None:  # an earlier attempt may have been applied
                left = subject.find(version)
                if left is None or (left.is_deleted and not permanent):
                    return version
            chosen = _pick(subject, version, deleted=True)
            version = chosen.version
            if permanent and not chosen.is_deleted:
                raise errors.version_not_soft_deleted(name, chosen.version)
            if not permanent and chosen.is_deleted:
                raise errors.version_soft_deleted(name, chosen.version)
            if await self._live_referrers(chosen):
                raise errors.reference_exists(name, chosen.version)
            changed = _without(subject, [chosen], permanent=permanent)
            outcome = await self._write_subject(changed, attempt)
            if outcome:
                return chosen.version
            was_unknown |= outcome is None
        raise errors.store_unavailable()

    async def delete_subject(self, name: str, *, permanent: bool = False) -> list[int]:
        """Delete all versions of a subject softly, or all soft-deleted ones permanently; return their numbers."""
        await self._check_writable(name)
        done: list[int] = []
        for attempt in range(_ATTEMPTS):
            subject = await self._subject(name)
            if done and (not subject.live if not permanent else not subject.versions):
                return done  # an earlier attempt was applied
            if not subject.versions:
                raise errors.subject_not_found(name)
            if permanent and subject.live:
                raise errors.subject_not_soft_deleted(name)
            if not permanent and not subject.live:
                raise errors.subject_soft_deleted(name)
            chosen = subject.versions if permanent else subject.live
            for version in chosen:
                if await self._live_referrers(version):
                    raise errors.reference_exists(name, version.version)
            outcome = await self._write_subject(_without(subject, chosen, permanent=permanent), attempt)
            if outcome:
                return [version.version for version in chosen]
            done = [version.version for version in chosen] if outcome is None else done
        raise errors.store_unavailable()

    # --- parts of writing ---------------------------------------------------------------------------------------------

    async def _registration(
        self, subject: Subject, parsed: Parsed, schema_id: int | None, version: int | None
    ) -> tuple[SubjectVersion, list[Operation]]:
        """Return the new version and the operations that register it, on condition that the rows do not change."""
        row = await self._get(guid_key(parsed.guid))
        existing_id = int(str(row["id"])) if row is not None else None
        if existing_id is not None and schema_id not in (None, existing_id):
            raise errors.id_does_not_match(schema_id or 0)
        operations: list[Operation] = []
        counter = await self._get(COUNTER)
        following = int(str(counter["next"])) if counter is not None else 1
        made_id = existing_id or schema_id or following
        if existing_id is None:
            if schema_id is not None and await self._get(schema_key(schema_id)) is not None:
                raise errors.not_permitted(f"Overwrite new schema with id {schema_id} is not permitted.")
            stored = StoredSchema(made_id, parsed.schema, parsed.guid, (subject.name,))
            operations.append(Put(schema_key(made_id), encode_schema(stored), Absent(("v",))))
            operations.append(Put(guid_key(parsed.guid), {"id": made_id}, Absent(("id",))))
            taken: Condition = Absent(("next",)) if counter is None else Compare(("next",), "=", following)
            if made_id >= following:  # a smaller id is an import's; the counter has passed it
                operations.append(Put(COUNTER, {"next": made_id + 1}, taken))
        else:
            stored = await self._read_schema(existing_id)
            operations += _named(stored, subject.name)
        number = version or (subject.versions[-1].version + 1 if subject.versions else 1)
        if subject.find(number) is not None:
            raise errors.not_permitted(f"Version {number} of subject {subject.name} already exists.")
        if len(subject.versions) >= SUBJECT_VERSIONS_MAX:
            raise errors.not_permitted(
                f"Subject {subject.name} has {SUBJECT_VERSIONS_MAX} versions: delete some permanently"
            )
        made = SubjectVersion(number, made_id)
        rows = {subject.name: subject.with_version(made)}
        for reference in parsed.schema.references:
            row_of = rows.get(reference.subject) or await self._subject(reference.subject)
            used = row_of.find(reference.version)
            if used is None or used.is_deleted:
                raise errors.invalid_schema(
                    f"it refers to version {reference.version} of subject {reference.subject!r}, which does not exist"
                )
            referrers = tuple(sorted({*used.referrers, made_id}))
            rows[reference.subject] = row_of.with_version(replace(used, referrers=referrers))
        operations += [_put_subject(row) for row in rows.values()]
        return made, operations

    async def _transact(self, operations: Sequence[Operation], attempt: int) -> bool:
        """Apply operations; return True if they certainly were applied, else False after a pause."""
        try:
            await self._catalog.transact(operations)
        except (TransactionCanceled, StoreUnavailable, OutcomeUnknown):
            await self._backoff.pause(attempt)
            return False
        except ItemTooLarge:
            raise errors.not_permitted(
                "Too many schemas refer to one version: register it under another subject too"
            ) from None
        return True

    async def _write_subject(self, subject: Subject, attempt: int) -> bool | None:
        """Write a subject's row; return True if applied, False if certainly not applied, None if unknown."""
        put = _put_subject(subject)
        try:
            await self._catalog.put(put)
        except StoreUnavailable:
            await self._backoff.pause(attempt)
            return False
        except (ConditionFailed, OutcomeUnknown):  # a client's own retry may have met its first success
            await self._backoff.pause(attempt)
            return None
        return True

    async def _change_config(self, name: str | None, change: object) -> None:
        """Change a configuration. The last of several concurrent changes wins; a delayed write is refused."""
        assert callable(change)
        for attempt in range(_ATTEMPTS):
            before = await self.config(name)
            condition: Condition = Compare(("rev",), "=", before.rev) if before.rev else Absent(("rev",))
            try:
                await self._catalog.put(Put(config_key(name), encode_config(change(before)), condition))
            except (ConditionFailed, StoreUnavailable, OutcomeUnknown):
                await self._backoff.pause(attempt)
            else:
                return
        raise errors.store_unavailable()

    def _check_mode(self, name: str, config: Config, schema_id: int | None, version: int | None) -> None:
        if config.mode in ("READONLY", "READONLY_OVERRIDE"):
            raise errors.not_permitted(f"Subject {name} is in read-only mode")
        if (schema_id is not None or version is not None) and config.mode != "IMPORT":
            raise errors.not_permitted(f"Subject {name} is not in import mode")
        if config.mode == "IMPORT" and schema_id is None:
            raise errors.not_permitted(f"Subject {name} is in import mode: give an id")

    async def _check_writable(self, name: str) -> None:
        if (await self.effective(name)).mode in ("READONLY", "READONLY_OVERRIDE"):
            raise errors.not_permitted(f"Subject {name} is in read-only mode")

    # --- parts of reading ---------------------------------------------------------------------------------------------

    async def _get(self, key: Key) -> Item | None:
        try:
            return await self._catalog.get(key)
        except StoreUnavailable:
            raise errors.store_unavailable() from None

    async def _subject(self, name: str) -> Subject:
        _check_name(name)
        return decode_subject(name, await self._get(subject_key(name)))

    async def _all(self) -> list[Subject]:
        try:
            rows = await self._catalog.query(REGISTRY_SUBJECTS_PK)
        except StoreUnavailable:
            raise errors.store_unavailable() from None
        return [decode_subject(row.key.sk, row.item) for row in rows]

    async def _read_schema(self, schema_id: int) -> StoredSchema:
        item = None if not 0 < schema_id < 1 << 31 else await self._get(schema_key(schema_id))
        if item is None:
            raise errors.schema_not_found(schema_id)
        stored = decode_schema(schema_id, item)
        if len(self._schemas) >= _SCHEMAS_KEPT:
            self._schemas.clear()
        self._schemas[schema_id] = stored
        return stored

    async def _registered(self, subject: Subject, version: SubjectVersion) -> Registered:
        return Registered(subject.name, version.version, await self.schema(version.schema_id))

    async def _find(self, subject: Subject, parsed: Parsed, *, deleted: bool) -> SubjectVersion | None:
        row = await self._get(guid_key(parsed.guid)) if subject.versions else None
        versions = subject.versions if deleted else subject.live
        return next((version for version in reversed(versions) if row and version.schema_id == row["id"]), None)

    async def _problems(self, level: Level, parsed: Parsed, subject: Subject) -> list[str]:
        ids = {version.version: version.schema_id for version in subject.live}
        incompatibilities = []
        for version in compared(level, [version.version for version in subject.live]):
            compare = partial(problems, level, parsed, await self.parsed(await self.schema(ids[version])))
            incompatibilities += [f"version {version}: {problem}" for problem in await self._beside.run(compare)]
            if incompatibilities:
                break
        return incompatibilities

    async def _normalizes(self, name: str, requested: bool) -> bool:
        return requested or bool((await self.effective(name)).normalize)

    async def _parse(self, schema: Schema, *, normalize: bool) -> Parsed:
        stored = (
            schema.text,
            *(text for reference in schema.references for text in (reference.name, reference.subject)),
        )
        size = sum(len(text.encode("utf-8", "surrogatepass")) for text in stored)
        if size > SCHEMA_BYTES_MAX:
            raise errors.schema_too_large(size, SCHEMA_BYTES_MAX)
        if len(schema.references) > SCHEMA_REFERENCES_MAX:
            raise errors.invalid_schema(f"it has more than {SCHEMA_REFERENCES_MAX} references")
        for reference in schema.references:
            _check_name_of_reference(reference.name)
        texts = await self.texts(schema)

        def understand(budget: Budget) -> Parsed:
            return parse(normalized(schema, texts, budget) if normalize else schema, texts, budget)

        return await self._beside.run(understand)

    async def texts(self, schema: Schema) -> list[ReferencedText]:
        """List the schemas that a schema needs, each after those that it needs itself."""
        texts_by_version: dict[tuple[str, int], ReferencedText] = {}
        names: dict[tuple[str, int], set[str]] = {}

        async def visit(current: Schema, open_: tuple[tuple[str, int], ...]) -> None:
            for reference in current.references:
                version_key = (reference.subject, reference.version)
                names.setdefault(version_key, set()).add(reference.name)
                if version_key in texts_by_version:
                    continue
                if version_key in open_ or len(texts_by_version) >= _REFERENCED_MAX:
                    raise errors.invalid_schema("its references form a cycle, or include too many schemas")
                inner = await self._reference(reference.subject, reference.version, reference.name)
                if inner.kind != schema.kind:
                    raise errors.invalid_schema(f"its type is {schema.kind}, but a reference's is {inner.kind}")
                await visit(inner, (*open_, version_key))
                texts_by_version[version_key] = ReferencedText(reference.name, inner.text)

        await visit(schema, ())
        return [
            ReferencedText(name, text.text)
            for version_key, text in texts_by_version.items()
            for name in _order(names[version_key])
        ]

    async def _reference(self, subject: str, version: int, name: str) -> Schema:
        chosen = (await self._subject(subject)).find(version)
        if chosen is None:
            raise errors.invalid_schema(
                f"No schema reference found for subject '{subject}' and version {version} (name {name!r})"
            )
        return (await self.schema(chosen.schema_id)).schema

    async def _live_referrers(self, version: SubjectVersion) -> list[int]:
        return [schema_id for schema_id in version.referrers if await self.uses(schema_id)]


def _order(names: set[str]) -> list[str]:
    return sorted(names)


def _pick(subject: Subject, version: int | None, *, deleted: bool) -> SubjectVersion:
    """Return a version of a subject; None is the latest that is not deleted. Raises RegistryError."""
    candidates = subject.versions if deleted else subject.live
    if not candidates or (version is None and not subject.live):
        raise errors.subject_not_found(subject.name)
    if version is None:
        return subject.live[-1]
    picked = next((candidate for candidate in candidates if candidate.version == version), None)
    if picked is None:
        raise errors.version_not_found(version)
    return picked


def _without(subject: Subject, versions: Sequence[SubjectVersion], *, permanent: bool) -> Subject:
    removed = {version.version for version in versions}
    if permanent:
        return replace(
            subject, versions=tuple(version for version in subject.versions if version.version not in removed)
        )
    marked = (
        replace(version, is_deleted=True) if version.version in removed else version for version in subject.versions
    )
    return replace(subject, versions=tuple(marked))


def _put_subject(subject: Subject) -> Put:
    condition: Condition = Compare(("rev",), "=", subject.rev) if subject.rev else Absent(("rev",))
    return Put(subject_key(subject.name), encode_subject(subject), condition)


def _named(stored: StoredSchema, subject: str) -> list[Operation]:
    """Return the operation that adds a subject to the schema's row; none if the row already has it."""
    if subject in stored.subjects or stored.has_more:
        return []
    if len(stored.subjects) >= SUBJECTS_NAMED_MAX:
        return [Update(schema_key(stored.schema_id), (Set(("more",), True),))]
    names = [*stored.subjects, subject]
    unchanged = Compare(("n",), "=", len(stored.subjects)) if len(stored.subjects) > 1 else Absent(("n",))
    return [Update(schema_key(stored.schema_id), (Set(("in",), list(names)), Set(("n",), len(names))), unchanged)]


def _check_name_of_reference(name: str) -> None:
    """Raise RegistryError if the name of a reference cannot be stored."""
    if not name or len(name.encode("utf-8", "surrogatepass")) > SUBJECT_NAME_BYTES_MAX:
        raise errors.invalid_schema(f"the name of a reference must have 1 to {SUBJECT_NAME_BYTES_MAX} bytes")
    if any(0xD800 <= ord(sign) < 0xE000 for sign in name):
        raise errors.invalid_schema("the name of a reference contains half of a surrogate pair")


def _check_name(name: str | None) -> None:
    """Raise RegistryError for an invalid subject name; None means the whole registry."""
    if name is None:
        return
    if not name or len(name.encode("utf-8", "surrogatepass")) > SUBJECT_NAME_BYTES_MAX:
        raise errors.invalid_subject(name[:80], f"a name must have 1 to {SUBJECT_NAME_BYTES_MAX} bytes")
    if any(ord(sign) < 32 or 0xD800 <= ord(sign) < 0xE000 for sign in name):
        raise errors.invalid_subject(name[:80], "it contains control characters")
    if name.startswith(":.") or name in ("__GLOBAL", "__EMPTY"):
        raise errors.invalid_subject(name, "contexts are not supported")
