"""The ASGI application: every route of the console."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from odradek.console.clusters import ClusterPaths, OtherCluster
from odradek.console.guard import Guard
from odradek.console.pages import (
    chosen,
    connectors,
    groups,
    jobs,
    others,
    overview,
    produce,
    records,
    schemas,
    security,
    sql,
    tables,
    topics,
    triggers,
)
from odradek.console.pages.base import render
from odradek.console.settings import ConsoleSettings
from odradek.console.state import ConsoleState
from odradek.operations.cluster import Cluster
from odradek.ports.clock import Clock
from odradek.system import SystemClock

if TYPE_CHECKING:
    from odradek.console.accounts import Hosted

_STATIC = Path(__file__).parent / "static"


class _Assets(StaticFiles):
    """Static files, which browsers keep: their URLs have a digest of the contents."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


class _Bounded(Convertor[int]):
    """A number of a path; one that no record can have is no path of the console."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


class _BoundedPartition(_Bounded):
    """The same of a partition."""

    regex = "[0-9]{1,9}"


register_url_convertor("partition", _BoundedPartition())
register_url_convertor("offset", _Bounded())


def _get(path: str, handler: object) -> Route:
    return Route(path, handler, methods=["GET"])  # type: ignore[arg-type]


def _post(path: str, handler: object) -> Route:
    return Route(path, handler, methods=["POST"])  # type: ignore[arg-type]


ROUTES = [
    _get("/", overview.overview),
    _get("/events", overview.overview_events),
    _get("/topics", topics.topics),
    _post("/topics", topics.create),
    _post("/topics-chosen", chosen.confirm),
    _post("/topics-chosen/change", chosen.change),
    _get("/topics/{name}", topics.topic),
    _post("/topics/{name}/configuration", topics.configure),
    _post("/topics/{name}/partitions", topics.add_partitions),
    _post("/topics/{name}/delete-records", topics.delete_records),
    _post("/topics/{name}/delete", topics.delete),
    _get("/topics/{name}/produce", produce.produce_page),
    _post("/topics/{name}/produce", produce.produce_records),
    _get("/topics/{name}/records", records.records),
    _get("/topics/{name}/records/search", records.search_events),
    _get("/topics/{name}/records/tail", records.tail_events),
    _get("/topics/{name}/records/download", records.download),
    _get("/topics/{name}/records/{partition:partition}/{offset:offset}", records.record),
    _get("/topics/{name}/records/{partition:partition}/{offset:offset}/raw", records.raw),
    _get("/topics/{name}/compare", records.compare),
    _get("/groups", groups.groups),
    _get("/groups/detail", groups.group),
    _get("/groups/lag", groups.lag_events),
    _get("/groups/reset", groups.preview),
    _post("/groups/redrive", groups.redrive_letters),
    _post("/groups/reset", groups.reset_offsets),
    _post("/groups/delete", groups.delete),
    _get("/schemas", schemas.schemas),
    _get("/schemas/detail", schemas.subject),
    _post("/schemas/check", schemas.check),
    _post("/schemas/register", schemas.register),
    _post("/schemas/level", schemas.set_level),
    _post("/schemas/delete", schemas.delete),
    _get("/sql", sql.sql),
    _post("/sql", sql.check),
    _get("/sql/words", sql.words),
    _get("/sql/export", sql.export),
    _post("/sql/start", sql.start),
    _post("/sql/stop", sql.stop),
    _get("/connectors", connectors.connectors),
    _get("/connectors/detail", connectors.connector),
    _post("/connectors/check", connectors.check),
    _post("/connectors/save", connectors.save),
    _post("/connectors/steer", connectors.steer),
    _post("/connectors/offsets", connectors.change_offsets),
    _post("/connectors/delete", connectors.delete),
    _get("/tables", tables.tables),
    _post("/tables", tables.serve),
    _get("/tables/detail", tables.table),
    _post("/tables/steer", tables.steer),
    _post("/tables/drop", tables.drop),
    _get("/triggers", triggers.triggers),
    _post("/triggers", triggers.create),
    _get("/triggers/detail", triggers.trigger),
    _post("/triggers/steer", triggers.steer),
    _post("/triggers/reset", triggers.reset),
    _post("/triggers/delete", triggers.delete),
    _get("/jobs", jobs.jobs),
    _get("/jobs/runs", jobs.runs),
    _post("/jobs/start", jobs.start),
    _post("/jobs/stop", jobs.stop),
    _get("/security", security.security),
    _post("/security/acls", security.create_acl),
    _post("/security/acls/delete", security.delete_acl),
    _post("/security/users", security.create_user),
    _post("/security/users/delete", security.delete_user),
    _post("/security/quotas", security.set_quota),
    _get("/transactions", others.transactions),
    _post("/transactions/abort", others.abort),
    _get("/costs", others.costs),
    _get("/health", others.health),
    _get("/audit", others.audit),
    _post("/theme", others.theme),
    _post("/sign-out", others.sign_out),
]


def console_app(
    cluster: Cluster,
    settings: ConsoleSettings | None = None,
    *,
    clock: Clock | None = None,
    port: int | None = None,
    hosted: Hosted | None = None,
    others: Sequence[OtherCluster] = (),
) -> Starlette:
    """Return the application of a console; `app.state.console.sessions.new_token()` makes a token to sign in with.

    Args:
        cluster: what the console shows. The application starts it and closes it.
        hosted: of a console for many, who sign in by OpenID Connect and act as themselves.
        others: clusters that the console also shows, each under a path of its own.
        port: that browsers call; None takes any port of the loopback interface (tests).
    """
    chosen, now = settings or ConsoleSettings(), clock or SystemClock()
    state = ConsoleState(cluster, chosen, now, hosted=hosted, others=others)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with cluster:
            yield
        await state.disconnect()
        await asyncio.to_thread(state.close)

    paths = Middleware(ClusterPaths, names=list(state.others))
    guard = Middleware(
        Guard,
        sessions=state.sessions,
        settings=chosen,
        templates=state.templates,
        clock=now,
        port=port,
        hosted=hosted,
    )
    routes = [*ROUTES, Mount("/static", _Assets(directory=_STATIC))]
    app = Starlette(
        routes=routes,
        middleware=[paths, guard],
        lifespan=lifespan,
        exception_handlers={HTTPException: _refused, 500: _failed},
    )
    app.state.console = state
    return app


async def _refused(request: Request, error: Exception) -> Response:
    """Answer 404, 405 and refusals of forms within the frame."""
    assert isinstance(error, HTTPException)
    if "session" not in request.scope:
        return PlainTextResponse(f"{error.detail}\n", error.status_code)
    return render(request, "refused.html", error.status_code, status=error.status_code, text=error.detail)


async def _failed(request: Request, error: Exception) -> Response:
    return PlainTextResponse("An unexpected error; its cause is in the console's log.\n", 500)
