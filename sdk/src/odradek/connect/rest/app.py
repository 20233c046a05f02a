"""Kafka Connect's REST API: its paths, JSON and status codes, over the operations of a cluster.

Every worker serves every request: what a request changes is written to the cluster's topics, so that nothing has to be
forwarded to another worker.

Source: Kafka Connect's ConnectorsResource, ConnectorPluginsResource, LoggingResource, RootResource.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any

from aiohttp import web

from odradek.connect import plugins
from odradek.connect.errors import BadRequest, ConnectError, RequestError
from odradek.connect.plugin import Plugin
from odradek.connect.rest.access import Users
from odradek.connect.runtime.cluster import Cluster
from odradek.connect.runtime.worker import set_level
from odradek.connect.state.cluster_state import PAUSED, STARTED, STOPPED
from odradek.errors import KafkaError
from odradek.extras import MissingExtra

_log = logging.getLogger("odradek.connect.rest")
_BODY_BYTES_MAX = 4 * 1024 * 1024
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(cluster: Cluster, users: Users | None = None) -> web.Application:
    """Return the application.

    Args:
        users: who may use it; None for everybody who reaches it.
    """
    guards = [] if users is None else [_logged_in(users)]
    app = web.Application(middlewares=[_errors, *guards], client_max_size=_BODY_BYTES_MAX)
    api = _Api(cluster)
    one = "/connectors/{name}"
    app.add_routes(
        [
            web.get("/", api.root),
            web.get("/health", api.health),
            web.get("/connectors", api.connectors),
            web.post("/connectors", api.create),
            web.get(one, api.get(cluster.info)),
            web.delete(one, api.delete),
            web.get(f"{one}/config", api.get(cluster.config)),
            web.put(f"{one}/config", api.put_config),
            web.patch(f"{one}/config", api.patch_config),
            web.get(f"{one}/status", api.get(cluster.status)),
            web.get(f"{one}/tasks", api.get(cluster.tasks)),
            web.get(f"{one}/tasks-config", api.tasks_config),
            web.get(one + "/tasks/{task}/status", api.task_status),
            web.post(one + "/tasks/{task}/restart", api.restart_task),
            web.post(f"{one}/restart", api.restart),
            web.put(f"{one}/pause", api.target(PAUSED, 202)),
            web.put(f"{one}/resume", api.target(STARTED, 202)),
            web.put(f"{one}/stop", api.target(STOPPED, 204)),
            web.get(f"{one}/topics", api.get(cluster.topics)),
            web.put(f"{one}/topics/reset", api.reset_topics),
            web.get(f"{one}/offsets", api.get(cluster.offsets)),
            web.patch(f"{one}/offsets", api.alter_offsets),
            web.delete(f"{one}/offsets", api.reset_offsets),
            web.get("/connector-plugins", api.plugins),
            web.get("/connector-plugins/{plugin}/config", api.plugin_config),
            web.put("/connector-plugins/{plugin}/config/validate", api.validate),
            web.get("/admin/loggers", api.loggers),
            web.get("/admin/loggers/{logger}", api.logger),
            web.put("/admin/loggers/{logger}", api.set_logger),
        ]
    )
    return app


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer errors as Kafka Connect does: {"error_code": n, "message": text}."""
    try:
        return await handler(request)
    except RequestError as error:
        return _refused(error.status, str(error))
    except web.HTTPException as error:
        return _refused(error.status, f"HTTP {error.status} {error.reason}")
    except (ConnectError, KafkaError) as error:
        return _refused(500, str(error))
    except Exception as error:  # a bug: without its stack trace for the client
        _log.exception("%s %s", request.method, request.path)
        return _refused(500, f"unexpected {type(error).__name__}: see the log of the worker")


def _logged_in(users: Users) -> Any:
    """Return what answers 401 to whoever is not one of the users. Health can be asked by everybody."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path != "/health" and not users.knows(request.headers.get("Authorization", "")):
            refused = _refused(401, "User cannot access the resource.")
            refused.headers["WWW-Authenticate"] = 'Basic realm="odradek connect"'
            return refused
        return await handler(request)

    return guard


def _refused(status: int, message: str) -> web.Response:
    return web.json_response({"error_code": status, "message": message}, status=status)


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        found = json.loads(await request.read() or b"{}")
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadRequest("the body must be a JSON object")
    return found


def _flag(request: web.Request, name: str) -> bool:
    return request.query.get(name, "false").lower() == "true"


class _Api:
    """The handlers; each calls the cluster in a thread of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # --- building blocks ------------------------------------------------------------------------------------------

    def get(self, read: Callable[[str], Any]) -> Handler:
        """Return a handler that answers what a method says about a connector."""

        async def handler(request: web.Request) -> web.Response:
            return web.json_response(await asyncio.to_thread(read, request.match_info["name"]))

        return handler

    def target(self, state: str, status: int) -> Handler:
        """Return a handler that pauses, resumes or stops."""

        async def handler(request: web.Request) -> web.Response:
            await asyncio.to_thread(self._cluster.set_target, request.match_info["name"], state)
            return web.Response(status=status)

        return handler

    # --- connectors -----------------------------------------------------------------------------------------------

    async def root(self, request: web.Request) -> web.Response:
        group = self._cluster.settings.group_id
        return web.json_response({"version": version("odradek"), "commit": "", "kafka_cluster_id": group})

    async def health(self, request: web.Request) -> web.Response:
        await asyncio.to_thread(self._cluster.connectors)
        return web.json_response({"status": "healthy", "message": "The worker reads the topics of its cluster."})

    async def connectors(self, request: web.Request) -> web.Response:
        names = await asyncio.to_thread(self._cluster.connectors)
        expand = request.query.getall("expand", [])
        if not expand:
            return web.json_response(names)
        reads = {"status": self._cluster.status, "info": self._cluster.info}
        wanted = [part for each in expand for part in each.split(",") if part in reads]
        found: dict[str, dict[str, Any]] = {}
        for name in names:
            try:
                found[name] = {part: await asyncio.to_thread(reads[part], name) for part in wanted}
            except RequestError:
                continue  # deleted meanwhile
        return web.json_response(found)

    async def create(self, request: web.Request) -> web.Response:
        body = await _body(request)
        configs = body.get("config")
        if not isinstance(configs, Mapping):
            raise BadRequest('the body must be {"name": ..., "config": {...}}')
        name = str(body.get("name") or configs.get("name") or "").strip()
        made = await asyncio.to_thread(self._cluster.create, name, configs, body.get("initial_state"))
        return web.json_response(made, status=201, headers={"Location": f"/connectors/{name}"})

    async def delete(self, request: web.Request) -> web.Response:
        await asyncio.to_thread(self._cluster.delete, request.match_info["name"])
        return web.Response(status=204)

    async def put_config(self, request: web.Request) -> web.Response:
        name, body = request.match_info["name"], await _body(request)
        made, is_new = await asyncio.to_thread(self._cluster.put_config, name, body)
        return web.json_response(made, status=201 if is_new else 200)

    async def patch_config(self, request: web.Request) -> web.Response:
        name, body = request.match_info["name"], await _body(request)
        return web.json_response(await asyncio.to_thread(self._cluster.patch_config, name, body))

    async def tasks_config(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        tasks = await asyncio.to_thread(self._cluster.tasks, name)
        return web.json_response({f"{name}-{each['id']['task']}": each["config"] for each in tasks})

    # --- tasks ----------------------------------------------------------------------------------------------------

    def _task(self, request: web.Request) -> tuple[str, int]:
        try:
            return request.match_info["name"], int(request.match_info["task"])
        except ValueError:
            raise BadRequest("a task is a number") from None

    async def task_status(self, request: web.Request) -> web.Response:
        return web.json_response(await asyncio.to_thread(self._cluster.task_status, *self._task(request)))

    async def restart_task(self, request: web.Request) -> web.Response:
        await asyncio.to_thread(self._cluster.restart_task, *self._task(request))
        return web.Response(status=204)

    async def restart(self, request: web.Request) -> web.Response:
        tasks, failed = _flag(request, "includeTasks"), _flag(request, "onlyFailed")
        status = await asyncio.to_thread(
            lambda: self._cluster.restart(request.match_info["name"], include_tasks=tasks, only_failed=failed)
        )
        return web.json_response(status, status=202) if tasks or failed else web.Response(status=204)

    async def reset_topics(self, request: web.Request) -> web.Response:
        await asyncio.to_thread(self._cluster.reset_topics, request.match_info["name"])
        return web.Response(status=200)

    # --- offsets --------------------------------------------------------------------------------------------------

    async def alter_offsets(self, request: web.Request) -> web.Response:
        offsets = (await _body(request)).get("offsets")
        if not isinstance(offsets, list):
            raise BadRequest('the body must be {"offsets": [{"partition": {...}, "offset": {...}}]}')
        message = await asyncio.to_thread(self._cluster.alter_offsets, request.match_info["name"], offsets)
        return web.json_response({"message": message})

    async def reset_offsets(self, request: web.Request) -> web.Response:
        message = await asyncio.to_thread(self._cluster.reset_offsets, request.match_info["name"])
        return web.json_response({"message": message})

    # --- plugins --------------------------------------------------------------------------------------------------

    async def plugins(self, request: web.Request) -> web.Response:
        only = request.query.get("connectorsOnly", "true").lower() != "false"
        return web.json_response(await asyncio.to_thread(lambda: list(plugins.listing(connectors_only=only))))

    async def plugin_config(self, request: web.Request) -> web.Response:
        kind = await asyncio.to_thread(_any_plugin, request.match_info["plugin"])
        found = kind.config_def.validate({})
        return web.json_response([each.as_json(order)["definition"] for order, each in enumerate(found.values(), 1)])

    async def validate(self, request: web.Request) -> web.Response:
        name, body = request.match_info["plugin"], await _body(request)
        return web.json_response(await asyncio.to_thread(self._cluster.validate, name, body))

    # --- loggers --------------------------------------------------------------------------------------------------

    async def loggers(self, request: web.Request) -> web.Response:
        return web.json_response({name: {"level": _level(name), "last_modified": None} for name in _logger_names()})

    async def logger(self, request: web.Request) -> web.Response:
        name = request.match_info["logger"]
        if name not in _logger_names():
            raise RequestError(404, f"Logger {name} not found.")
        return web.json_response({"level": _level(name), "last_modified": None})

    async def set_logger(self, request: web.Request) -> web.Response:
        name, level = request.match_info["logger"], (await _body(request)).get("level")
        if not isinstance(level, str):
            raise BadRequest("Desired 'level' parameter was not specified in request.")
        try:
            set_level(name, level)
        except ConnectError as error:
            raise RequestError(404, str(error)) from None
        if request.query.get("scope") == "cluster":
            await asyncio.to_thread(self._cluster.set_logger, name, level)
            return web.Response(status=204)
        prefix = "odradek" if name == "root" else name
        return web.json_response([each for each in _logger_names() if each == name or each.startswith(f"{prefix}.")])


def _any_plugin(name: str) -> type[Plugin]:
    """Return a plugin of any category. Raises RequestError."""
    for category in plugins.PLUGINS:
        try:
            return plugins.find(category, name).load()
        except MissingExtra as error:
            raise RequestError(404, str(error)) from None
        except ConnectError:
            continue
    raise RequestError(404, f"unknown plugin {name}: `odradek connect plugins --all` lists them")


def _logger_names() -> list[str]:
    known = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "odradek"]
    return sorted({*known, "root"})


def _level(name: str) -> str:
    found = logging.getLogger("odradek" if name == "root" else name).getEffectiveLevel()
    return {"WARNING": "WARN", "CRITICAL": "FATAL"}.get(logging.getLevelName(found), logging.getLevelName(found))
