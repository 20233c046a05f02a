"""`python -m odradek.console.hosted`: a console for many, as a function behind a URL or a container runs it.

    variable                            meaning; default
    those of functions/environment.py   the store (ODRADEK_LOG_TABLE ...), and settings
    ODRADEK_CONSOLE_SECRET              32 bytes or more, of all processes: seals sessions
    ODRADEK_CONSOLE_OIDC                JSON of oidc.OidcSettings: issuer, client_id, url, principals ...
    ODRADEK_CONSOLE_OIDC_PARAMETER      in its place: the name of the SSM parameter with that JSON
    ODRADEK_CONSOLE_SECRET_ARN          in place of the secret: the secret of Secrets Manager
    ODRADEK_CONSOLE_READ_ONLY           true: nobody changes anything
    PORT                                to listen on; 8080

Each person acts as a principal of their own: requests go to the dispatcher in this process with that principal, so ACLs
apply to every action, and the service's audit log names who did it. Sessions are sealed cookies, so that any process
serves any request. Pages that read the store itself past the ACLs (segments, queries, records in flight) are left out.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from odradek.client.transport.base import InProcessTransport
from odradek.console.accounts import Hosted
from odradek.console.oidc import Oidc, OidcSettings
from odradek.console.sealing import Sealer
from odradek.console.serving import serve_console
from odradek.console.settings import ConsoleSettings
from odradek.dispatcher import Dispatcher, RequestContext
from odradek.errors import ErrorCode, KafkaError
from odradek.limits import FUNCTION_BINARY_BYTES_MAX
from odradek.operations.cluster import Cluster
from odradek.protocol.api import OWNED, FunctionName
from odradek.triggers.api import Request, TriggersApi

_PREFIX = "ODRADEK_CONSOLE_"
_ALL = "0.0.0.0"  # noqa: S104  # nosec B104: a container's only interface

ClusterOf = Callable[[str], Cluster]
"""A principal -> the cluster as that principal sees it."""


def cluster_of(
    dispatcher: Dispatcher, loop: asyncio.AbstractEventLoop, triggers: TriggersApi | None = None
) -> ClusterOf:
    """Return what makes the cluster of a principal over a dispatcher in this process, which runs on a loop."""

    def make(principal: str) -> Cluster:
        async def functions(name: str, method: str, path: str, body: bytes) -> tuple[int, Mapping[str, Any]]:
            if triggers is None or name != "triggers":
                return 400, {"error": "INVALID_CONFIG", "message": f"there is no function {name!r} in this process"}
            return await triggers.answer(Request(method, path, body, principal, "127.0.0.1"))

        async def dispatch(function: FunctionName, frame: bytes) -> bytes:
            context = RequestContext(
                principal=principal,
                client_host="127.0.0.1",
                transport="https",
                allowed=OWNED[function],
                max_response_bytes=FUNCTION_BINARY_BYTES_MAX,
            )
            return b"".join(await dispatcher.dispatch(frame, context) or ())

        transport = InProcessTransport(dispatch, loop=loop, functions=functions)
        return Cluster({"transport": transport, "client_id": "odradek-console"})

    return make


def oidc_settings(environ: Mapping[str, str], read_parameter: Callable[[str], str]) -> OidcSettings:
    """Return how people sign in. Raises KafkaError(INVALID_CONFIG) that says what is missing."""
    text = environ.get(_PREFIX + "OIDC") or ""
    name = environ.get(_PREFIX + "OIDC_PARAMETER")
    if not text and name:
        text = read_parameter(name)
    try:
        found: dict[str, Any] = json.loads(text or "{}")
        for each in ("groups_required", "readers"):
            if each in found:
                found[each] = tuple(found[each])
        return OidcSettings(**found)
    except (ValueError, TypeError) as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{_PREFIX}OIDC is not the JSON of a sign-in: {error}") from None


def secret_of(environ: Mapping[str, str], read_secret: Callable[[str], str]) -> bytes:
    """Return the secret that seals sessions. Raises KafkaError(INVALID_CONFIG)."""
    arn = environ.get(_PREFIX + "SECRET_ARN")
    text = environ.get(_PREFIX + "SECRET") or (read_secret(arn) if arn else "")
    if not text:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"set {_PREFIX}SECRET or {_PREFIX}SECRET_ARN")
    return text.encode()


def _from_aws(service: str, call: str, answer: tuple[str, ...], **arguments: Any) -> str:
    import boto3

    client: Any = boto3
    found = getattr(client.client(service), call)(**arguments)
    for name in answer:
        found = found[name]
    return str(found)


async def _serve(environ: Mapping[str, str]) -> None:
    from odradek.engine.engine import Engine
    from odradek.functions.environment import Environment
    from odradek.model.cluster import FLEET_BROKER_ID, Broker
    from odradek.model.cluster import Cluster as Brokers
    from odradek.ports.meter import NullMeter
    from odradek.settings import Settings
    from odradek.system import SystemClock, SystemRng
    from odradek.triggers.leases import Leases
    from odradek.triggers.reach import Reach
    from odradek.triggers.triggers import Definitions, Triggers

    settings = Settings.from_env(environ)
    oidc = oidc_settings(environ, lambda name: _from_aws("ssm", "get_parameter", ("Parameter", "Value"), Name=name))
    secret = secret_of(
        environ, lambda arn: _from_aws("secretsmanager", "get_secret_value", ("SecretString",), SecretId=arn)
    )
    async with Environment.from_env(environ).open_store(NullMeter()) as store:
        engine = Engine(tables=store, objects=store.objects, clock=store.clock, rng=SystemRng(), settings=settings)
        dispatcher = Dispatcher(engine, Brokers(settings.cluster_id, Broker(FLEET_BROKER_ID, "fleet", 443)))
        sealer = Sealer(secret, SystemClock())
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        # Without the queue: what a created or resumed trigger has to do waits for the sweep of maintenance.
        leases = Leases(engine, engine.rng.random_bytes(8).hex())
        reach = Reach(settings.trigger_targets, settings.trigger_networks)
        api = TriggersApi(Triggers(engine, Definitions(engine), leases, None, reach), engine.acls)
        make = cluster_of(dispatcher, asyncio.get_running_loop(), api)
        chosen = ConsoleSettings(
            read_only=environ.get(_PREFIX + "READ_ONLY", "").lower() == "true", sql_jobs=False, history_s=0
        )
        hosted = Hosted(Oidc(oidc, SystemClock(), sealer), sealer, make)
        port = int(environ.get("PORT", "8080"))
        async with serve_console(make("User:console"), chosen, host=_ALL, port=port, hosted=hosted):
            await stopping.wait()


def main() -> int:
    """Serve until a signal."""
    try:
        asyncio.run(_serve(os.environ))
    except KafkaError as error:
        print(f"odradek: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
