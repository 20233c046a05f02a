"""Carries out the changes of a plan, one after the other. The first that fails ends it; what was done stays done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from odradek.errors import KafkaError
from odradek.operations.cluster import Cluster
from odradek.operations.cluster_file import statements
from odradek.operations.cluster_file.checks import password, schema_of
from odradek.operations.cluster_file.contents import ClusterFile, SqlEntry
from odradek.operations.cluster_file.plan import Action, Change, Plan
from odradek.operations.connectors import Connectors
from odradek.operations.security import exactly
from odradek.operations.topics import create_topic


class ApplyFailed(KafkaError):
    """A change failed.

    Attributes:
        applied: the number of changes before it, which stay.
    """

    def __init__(self, error: KafkaError, change: Change, applied: int, total: int) -> None:
        later = total - applied - 1
        super().__init__(
            error.code,
            f"{change.name}: {error.message}; {applied} of {total} changes were made before it, and {later} after it "
            "were not tried. Apply the file again to go on",
        )
        self.applied = applied


async def apply_plan(
    cluster: Cluster,
    plan: Plan,
    wanted: ClusterFile,
    present: ClusterFile,
    environ: Mapping[str, str],
    done: Callable[[Change], None] = lambda change: None,
) -> None:
    """Carry out a plan.

    Args:
        wanted, present: what the plan was made of.
        environ: where passwords of new users are.
        done: called after each change.

    Raises:
        ApplyFailed: the first change that failed.
    """
    applying = _Applying(cluster, wanted.sql, present.sql, environ)
    for number, change in enumerate(plan.changes):
        try:
            await applying.apply(change)
        except KafkaError as error:
            raise ApplyFailed(error, change, number, len(plan.changes)) from error
        done(change)


class _Applying:
    """One method a section."""

    def __init__(
        self, cluster: Cluster, sql: SqlEntry | None, present_sql: SqlEntry | None, environ: Mapping[str, str]
    ) -> None:
        self._cluster, self._admin = cluster, cluster.admin
        self._sql_wanted, self._sql_present = sql, present_sql
        self._environ = environ

    async def apply(self, change: Change) -> None:
        await getattr(self, f"_{change.section}")(change)

    async def _topics(self, change: Change) -> None:
        if change.action is Action.CREATE:
            await create_topic(self._admin, change.key, change.after.partitions or -1, change.after.configs)
        elif change.action is Action.DELETE:
            await self._admin.delete_topics([change.key])
        else:
            await self._change_topic(change)

    async def _change_topic(self, change: Change) -> None:
        configs = {
            difference.field: difference.after for difference in change.differences if difference.field != "partitions"
        }
        values = {name: value for name, value in configs.items() if value is not None}
        if configs:
            await self._admin.alter_topic_configs(change.key, values, delete=configs.keys() - values.keys())
        if any(difference.field == "partitions" for difference in change.differences):
            await self._admin.create_partitions({change.key: change.after.partitions})

    async def _users(self, change: Change) -> None:
        if change.action is Action.CREATE:
            await self._admin.create_user(change.key, password(change.after, self._environ))
        else:
            await self._admin.delete_user(change.key)

    async def _acls(self, change: Change) -> None:
        if change.action is Action.CREATE:
            await self._admin.create_acls([change.key])
        else:
            await self._admin.delete_acls(exactly(change.key))

    async def _quotas(self, change: Change) -> None:
        values: dict[str, float | None] = {
            difference.field: change.after.get(difference.field) for difference in change.differences
        }
        if change.action is Action.DELETE:
            values = dict.fromkeys(change.before)
        await self._admin.alter_client_quotas(change.key, values)

    async def _schemas(self, change: Change) -> None:
        registry = await self._cluster.registry()
        if change.action is Action.DELETE:
            await asyncio.to_thread(registry.delete_subject, change.key)
            return
        fields = {difference.field for difference in change.differences}
        if change.after.compatibility or "compatibility" in fields:
            await asyncio.to_thread(registry.set_level, change.key, change.after.compatibility)
        if change.action is Action.CREATE or "schema" in fields:
            await asyncio.to_thread(registry.add, change.key, schema_of(change.after))

    async def _connectors(self, change: Change) -> None:
        group, name = change.key

        def within() -> None:
            connectors = Connectors(self._cluster.configs, group)
            try:
                if change.action is Action.DELETE:
                    connectors.delete(name)
                else:
                    connectors.save(name, change.after)
            finally:
                connectors.close()

        await asyncio.to_thread(within)

    async def _sql(self, change: Change) -> None:
        from odradek.sql.server.client import RestClient

        assert self._sql_wanted is not None
        assert self._sql_present is not None
        text = _statement(change, self._sql_present)
        client = RestClient(self._sql_wanted.server)
        await asyncio.to_thread(client.execute, text, self._sql_wanted.properties, {})


def _statement(change: Change, present: SqlEntry) -> str:
    """Return the statement that makes a change."""
    if change.action is Action.CREATE:
        return str(change.after)
    if change.action is Action.CHANGE:
        return statements.replacing(change.after)
    kind, _, name = change.key.partition("/")
    if kind == "insert":
        return f"TERMINATE `{present.query_ids[change.before]}`;"
    return f"DROP {kind.upper()} `{name}`;"
