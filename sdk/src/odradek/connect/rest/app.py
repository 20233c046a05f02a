"""Kafka Connect's REST API: its paths, JSON and status codes, over the operations of a cluster.

Every worker serves every request: what a request changes is written to the cluster's topics, so that nothing has to be
forwarded to another worker.

Source: Kafka Connect's ConnectorsResource, ConnectorPluginsResource, LoggingResource, RootResource.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from aiohttp import web
from multidict import MultiMapping

from odradek.connect import plugins
from odradek.connect.errors import BadRequest, ConnectError, RequestError
from odradek.connect.plugin import Plugin
from odradek.connect.runtime.cluster import Cluster
from odradek.connect.runtime.worker import set_level
from odradek.connect.state.cluster_state import PAUSED, STARTED, STOPPED
from odradek.errors import KafkaError
from odradek.extras import MissingExtra
from odradek.http.json_body import NotJson, parse_json

_log = logging.getLogger("odradek.connect.rest")


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose path is known."""

    names: Mapping[str, str]  # of the path: connector, task, plugin, logger
    query: MultiMapping[str]
    body: bytes


Handler = Callable[[Call], Awaitable[web.Response]]


def routes_of(cluster: Cluster) -> list[web.RouteDef]:
    """Return every route of the API."""
    api: Any = _Api(cluster)  # aiohttp routes to any object; its own type is that of handlers of its applications
    one = "/connectors/{name}"
    return [
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


def make_answer(cluster: Cluster) -> Callable[[web.BaseRequest, bytes], Awaitable[web.Response]]:
    """Return what answers a request and its body."""
    router = web.UrlDispatcher()
    router.add_routes(routes_of(cluster))
    written = cluster.settings.providers.as_written

    async def answer(request: web.BaseRequest, body: bytes) -> web.Response:
        try:
            match_info: Any = await router.resolve(request)  # type: ignore[arg-type]
            if match_info.http_exception is not None:
                raise match_info.http_exception
            handler: Handler = match_info.handler
            return await handler(Call(dict(match_info), request.query, body))
        except RequestError as error:
            return refusal(error.status, written(str(error)))
        except web.HTTPException as error:
            return refusal(error.status, f"HTTP {error.status} {error.reason}")
        except (ConnectError, KafkaError) as error:
            return refusal(500, written(str(error)))
        except Exception as error:  # a bug: without its stack trace for the client
            _log.exception("%s %s", request.method, request.path)
            return refusal(500, f"unexpected {type(error).__name__}: see the log of the worker")

    return answer


def refusal(status: int, message: str) -> web.Response:
    """Return an error as Kafka Connect answers it."""
    return web.json_response({"error_code": status, "message": message}, status=status)


def _body(call: Call) -> dict[str, Any]:
    try:
        document = parse_json(call.body or b"{}")
    except NotJson as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadRequest("the body must be a JSON object")
    return document


def _flag(call: Call, name: str) -> bool:
    return call.query.get(name, "false").lower() == "true"


class _Api:
    """The handlers; each calls the cluster in a thread of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # --- building blocks ------------------------------------------------------------------------------------------

    def get(self, read: Callable[[str], Any]) -> Handler:
        """Return a handler that answers what a method says about a connector."""

        async def handler(call: Call) -> web.Response:
            return web.json_response(await asyncio.to_thread(read, call.names["name"]))

        return handler

    def target(self, state: str, status: int) -> Handler:
        """Return a handler that pauses, resumes or stops."""

        async def handler(call: Call) -> web.Response:
            await asyncio.to_thread(self._cluster.set_target, call.names["name"], state)
            return web.Response(status=status)

        return handler

    # --- connectors -----------------------------------------------------------------------------------------------

    async def root(self, call: Call) -> web.Response:
        group = self._cluster.settings.group_id
        return web.json_response({"version": version("odradek"), "commit": "", "kafka_cluster_id": group})

    async def health(self, call: Call) -> web.Response:
        await asyncio.to_thread(self._cluster.connectors)
        return web.json_response({"status": "healthy", "message": "The worker reads the topics of its cluster."})

    async def connectors(self, call: Call) -> web.Response:
        names = await asyncio.to_thread(self._cluster.connectors)
        expand = call.query.getall("expand", [])
        if not expand:
            return web.json_response(names)
        reads = {"status": self._cluster.status, "info": self._cluster.info}
        wanted = [part for expansion in expand for part in expansion.split(",") if part in reads]
        described: dict[str, dict[str, Any]] = {}
        for name in names:
            try:
                described[name] = {part: await asyncio.to_thread(reads[part], name) for part in wanted}
            except RequestError:
                continue  # deleted meanwhile
        return web.json_response(described)

    async def create(self, call: Call) -> web.Response:
        body = _body(call)
        configs = body.get("config")
        if not isinstance(configs, Mapping):
            raise BadRequest('the body must be {"name": ..., "config": {...}}')
        name = str(body.get("name") or configs.get("name") or "").strip()
        made = await asyncio.to_thread(self._cluster.create, name, configs, body.get("initial_state"))
        return web.json_response(made, status=201, headers={"Location": f"/connectors/{quote(name, safe='')}"})

    async def delete(self, call: Call) -> web.Response:
        await asyncio.to_thread(self._cluster.delete, call.names["name"])
        return web.Response(status=204)

    async def put_config(self, call: Call) -> web.Response:
        name, body = call.names["name"], _body(call)
        made, is_new = await asyncio.to_thread(self._cluster.put_config, name, body)
        return web.json_response(made, status=201 if is_new else 200)

    async def patch_config(self, call: Call) -> web.Response:
        name, body = call.names["name"], _body(call)
        return web.json_response(await asyncio.to_thread(self._cluster.patch_config, name, body))

    async def tasks_config(self, call: Call) -> web.Response:
        name = call.names["name"]
        tasks = await asyncio.to_thread(self._cluster.tasks, name)
        return web.json_response({f"{name}-{task['id']['task']}": task["config"] for task in tasks})

    # --- tasks ----------------------------------------------------------------------------------------------------

    def _task(self, call: Call) -> tuple[str, int]:
        try:
            return call.names["name"], int(call.names["task"])
        except ValueError:
            raise BadRequest("a task is a number") from None

    async def task_status(self, call: Call) -> web.Response:
        return web.json_response(await asyncio.to_thread(self._cluster.task_status, *self._task(call)))

    async def restart_task(self, call: Call) -> web.Response:
        await asyncio.to_thread(self._cluster.restart_task, *self._task(call))
        return web.Response(status=204)

    async def restart(self, call: Call) -> web.Response:
        tasks, failed = _flag(call, "includeTasks"), _flag(call, "onlyFailed")
        status = await asyncio.to_thread(
            lambda: self._cluster.restart(call.names["name"], include_tasks=tasks, only_failed=failed)
        )
        return web.json_response(status, status=202) if tasks or failed else web.Response(status=204)

    async def reset_topics(self, call: Call) -> web.Response:
        await asyncio.to_thread(self._cluster.reset_topics, call.names["name"])
        return web.Response(status=200)

    # --- offsets --------------------------------------------------------------------------------------------------

    async def alter_offsets(self, call: Call) -> web.Response:
        offsets = _body(call).get("offsets")
        if not isinstance(offsets, list):
            raise BadRequest('the body must be {"offsets": [{"partition": {...}, "offset": {...}}]}')
        message = await asyncio.to_thread(self._cluster.alter_offsets, call.names["name"], offsets)
        return web.json_response({"message": message})

    async def reset_offsets(self, call: Call) -> web.Response:
        message = await asyncio.to_thread(self._cluster.reset_offsets, call.names["name"])
        return web.json_response({"message": message})

    # --- plugins --------------------------------------------------------------------------------------------------

    async def plugins(self, call: Call) -> web.Response:
        only = call.query.get("connectorsOnly", "true").lower() != "false"
        return web.json_response(await asyncio.to_thread(lambda: list(plugins.listing(connectors_only=only))))

    async def plugin_config(self, call: Call) -> web.Response:
        plugin_class = await asyncio.to_thread(_any_plugin, call.names["plugin"])
        validated = plugin_class.config_def.validate({})
        return web.json_response(
            [config_value.as_json(order)["definition"] for order, config_value in enumerate(validated.values(), 1)]
        )

    async def validate(self, call: Call) -> web.Response:
        name, body = call.names["plugin"], _body(call)
        return web.json_response(await asyncio.to_thread(self._cluster.validate, name, body))

    # --- loggers --------------------------------------------------------------------------------------------------

    async def loggers(self, call: Call) -> web.Response:
        return web.json_response({name: {"level": _level(name), "last_modified": None} for name in _logger_names()})

    async def logger(self, call: Call) -> web.Response:
        name = call.names["logger"]
        if name not in _logger_names():
            raise RequestError(404, f"Logger {name} not found.")
        return web.json_response({"level": _level(name), "last_modified": None})

    async def set_logger(self, call: Call) -> web.Response:
        name, level = call.names["logger"], _body(call).get("level")
        if not isinstance(level, str):
            raise BadRequest("Desired 'level' parameter was not specified in request.")
        try:
            set_level(name, level)
        except ConnectError as error:
            raise RequestError(404, str(error)) from None
        if call.query.get("scope") == "cluster":
            await asyncio.to_thread(self._cluster.set_logger, name, level)
            return web.Response(status=204)
        prefix = "odradek" if name == "root" else name
        return web.json_response(
            [
                logger_name
                for logger_name in _logger_names()
                if logger_name == name or logger_name.startswith(f"{prefix}.")
            ]
        )


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
    own_loggers = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "odradek"]
    return sorted({*own_loggers, "root"})


def _level(name: str) -> str:
    level = logging.getLogger("odradek" if name == "root" else name).getEffectiveLevel()
    return {"WARNING": "WARN", "CRITICAL": "FATAL"}.get(logging.getLevelName(level), logging.getLevelName(level))
