"""The shell of `odradek sql`: statements as one types them, rows as they come, over a server's REST API.

A statement ends with a semicolon and may take several lines. SET, UNSET, DEFINE and UNDEFINE hold for the session, and
RUN SCRIPT reads a file, as in ksqlDB's shell.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from odradek.child_process import start_child
from odradek.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from odradek.sql.server.client import Json, RestClient
    from odradek.sql.syntax import Statement

PROMPT, MORE = "sql> ", "...> "
HELP = """\
A statement ends with a semicolon: SHOW STREAMS; SELECT * FROM s EMIT CHANGES;
Ctrl-C ends a query or drops what was typed; exit, quit or Ctrl-D leaves.
RUN SCRIPT 'file'; runs a file.  SET, UNSET, DEFINE, UNDEFINE hold for this session.  Tab completes."""
_RUN = re.compile(r"\s*RUN\s+SCRIPT\s+'((?:[^']|'')+)'\s*;?\s*", re.IGNORECASE)
_OPEN = re.compile(r"--[^\n]*|/\*[\s\S]*?\*/|'(?:[^']|'')*'|`[^`]*`|\"[^\"]*\"|(?P<end>;)|(?P<open>['`\"]|/\*)")
_HISTORY_LINES = 2_000
_START_S = 120.0
_READY = re.compile(r"on (https?://\S+?),")
_SCRIPT_DEPTH_MAX = 10


class Screen(Protocol):
    """The output of results and messages."""

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None: ...

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None: ...

    def say(self, text: str) -> None: ...


class Shell:
    """One session with a server."""

    def __init__(self, client: RestClient, screen: Screen) -> None:
        self._client = client
        self._screen = screen
        self._properties: dict[str, str] = {}
        self._variables: dict[str, str] = {}
        self._depth = 0

    def run(self, read: Callable[[str], str]) -> None:
        """Read and run statements until the end of the input.

        Args:
            read: returns a line, shown a prompt. Raises EOFError at the end, KeyboardInterrupt for Ctrl-C.
        """
        typed = ""
        while True:
            try:
                line = read(MORE if typed else PROMPT)
            except EOFError:
                return
            except KeyboardInterrupt:
                typed = ""
                continue
            if not typed and line.strip().rstrip(";").lower() in ("exit", "quit"):
                return
            if not typed and line.strip().rstrip(";").lower() == "help":
                self._screen.say(HELP)
                continue
            typed += line + "\n"
            if not is_complete(typed):
                typed = "" if not typed.strip() else typed
                continue
            text, typed = typed, ""
            try:
                self.execute(text)
            except KafkaError as error:
                self._screen.say(f"{error.message}")
            except KeyboardInterrupt:
                self._screen.say("ended")

    def execute(self, text: str) -> None:
        """Run statements in order; a query without end runs until Ctrl-C. Raises KafkaError."""
        from odradek.sql.server.statements import statements_of

        script = _RUN.fullmatch(text)
        if script is not None:
            self._run_script(Path(script[1].replace("''", "'")))
            return
        for statement, shown in statements_of(text, self._variables):
            self._one(statement, shown)

    def _run_script(self, path: Path) -> None:
        if self._depth >= _SCRIPT_DEPTH_MAX:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"scripts run each other {_SCRIPT_DEPTH_MAX} deep")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8 text"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{path}: {reason}") from None
        self._depth += 1
        try:
            self.execute(text)
        finally:
            self._depth -= 1

    def _one(self, statement: Statement, text: str) -> None:
        from odradek.sql.syntax import Define, Print, Query, Set, Show

        if isinstance(statement, Set):
            self._set(statement.name, statement.value)
        elif isinstance(statement, Define):
            if statement.value is None:
                self._variables.pop(statement.name.text, None)
            else:
                self._variables[statement.name.text] = statement.value
        elif isinstance(statement, Query | Print):
            self._query(text)
        elif isinstance(statement, Show) and statement.what == "VARIABLES":
            self._screen.table("Variables", ("variable", "value"), sorted(self._variables.items()))
        else:
            for entity in self._client.execute(text, self._properties, {}):
                show_entity(self._screen, entity)
            if isinstance(statement, Show) and statement.what == "PROPERTIES" and self._properties:
                self._screen.table("Of this session", ("property", "value"), sorted(self._properties.items()))

    def _set(self, name: str, value: str | None) -> None:
        self._client.check_property(name)
        if value is None:
            self._properties.pop(name, None)
        else:
            self._properties[name] = value
        self._screen.say(f"{name} is {'unset' if value is None else value}")

    def _query(self, text: str) -> None:
        columns: list[str] = []
        rows = self._client.rows(text, self._properties, {})
        try:
            for row in rows:
                if isinstance(row, str):
                    self._screen.rows(("record",), [(row,)])
                elif isinstance(row, dict):
                    columns = row["columnNames"]
                else:
                    self._screen.rows(columns, [row])
        finally:
            with suppress(KafkaError):
                rows.close()  # type: ignore[attr-defined]


def is_complete(text: str) -> bool:
    """Return True if a text ends with a semicolon that is not in a string, a name or a comment."""
    ended = False
    position = 0
    for match in _OPEN.finditer(text):
        if text[position : match.start()].strip():
            ended = False
        position = match.end()
        if match["open"]:
            return False
        if match["end"]:
            ended = True
        elif not match[0].startswith(("--", "/*")):
            ended = False
    return ended and not text[position:].strip()


_LISTS = {  # of results: the rows, their columns and where these are
    "streams": ("streams", {"name": "name", "topic": "topic", "key": "keyFormat", "value": "valueFormat"}),
    "tables": ("tables", {"name": "name", "topic": "topic", "key": "keyFormat", "value": "valueFormat",
                          "windowed": "isWindowed"}),
    "queries": ("queries", {"query": "id", "writes": "sinks", "topic": "sinkKafkaTopics", "state": "state"}),
    "kafka_topics": ("topics", {"topic": "name", "partitions": "replicaInfo"}),
    "function_names": ("functions", {"function": "name", "kind": "type"}),
    "properties": ("properties", {"property": "name", "value": "value"}),
    "connector_list": ("connectors", {"connector": "name", "type": "type", "class": "className", "state": "state"}),
    "connector_plugins_list": ("connectorsPlugins", {"class": "className", "type": "type", "version": "version"}),
}  # fmt: skip


def show_entity(screen: Screen, entity: Json) -> None:
    """Show the result of a statement."""
    entity_type = entity["@type"]
    for warning in entity.get("warnings", ()):
        screen.say(f"note: {warning['message']}")
    if entity_type == "currentStatus":
        screen.say(entity["commandStatus"]["message"])
    elif entity_type in _LISTS:
        rows, columns = _LISTS[entity_type]
        screen.table("", tuple(columns), [[_cell(item[name]) for name in columns.values()] for item in entity[rows]])
    elif entity_type == "sourceDescription":
        _show_source(screen, entity["sourceDescription"])
    elif entity_type == "source_descriptions":
        for source in entity["sourceDescriptions"]:
            _show_source(screen, source)
    elif entity_type == "queryDescription":
        screen.say(entity["queryDescription"]["topology"] + "\n")
    elif entity_type == "type_list":
        screen.table("", ("type", "is"), [(name, _type(schema)) for name, schema in entity["types"].items()])
    elif entity_type == "connector_info":
        screen.say(f"Created connector {entity['info']['name']}")
    elif entity_type == "drop_connector":
        screen.say(f"Dropped connector {entity['connectorName']}")
    elif entity_type == "connector_description":
        _show_connector(screen, entity)
    elif entity_type == "describe_function":
        described = "; ".join(function["description"] for function in entity["functions"])
        screen.table("", ("function", "kind", "takes"), [(entity["name"], entity["type"], described)])
    else:
        screen.say(str(entity.get("message") or ("exists" if entity.get("exists") else "does not exist")))


def _show_source(screen: Screen, source: Json) -> None:
    title = f"{source['name']}: {source['type'].lower()} over topic {source['topic']}, key {source['keyFormat']}, "
    title += f"value {source['valueFormat']}" + (f", {source['windowType']} windows" if source["windowType"] else "")
    fields = [(field["name"], _type(field["schema"]), field.get("type", "").lower()) for field in source["fields"]]
    screen.table(title, ("column", "type", "role"), fields)
    for role in ("readQueries", "writeQueries") if source["extended"] else ():
        queries = [(query["id"], query["state"], query["queryString"]) for query in source[role]]
        if queries:
            screen.table("read by" if role == "readQueries" else "written by", ("query", "state", "statement"), queries)


def _show_connector(screen: Screen, description: Json) -> None:
    status = description["status"]
    connector = status["connector"]
    title = f"{status['name']}: {status['type']} {description['connectorClass']}, {connector['state']}"
    tasks = [(task["id"], task["state"], task["worker_id"], task.get("trace", "")) for task in status["tasks"]]
    screen.table(title, ("task", "state", "worker", "error"), tasks)
    if "trace" in connector:
        screen.say(connector["trace"])
    if description["sources"]:
        sources = [(source["name"], source["topic"], source["type"].lower()) for source in description["sources"]]
        screen.table("Streams and tables over its topics", ("name", "topic", "kind"), sources)
    if description["topics"]:
        screen.say(f"topics: {', '.join(description['topics'])}")


def _type(schema: Json) -> str:
    if schema["fields"]:
        return "STRUCT<" + ", ".join(f"{field['name']} {_type(field['schema'])}" for field in schema["fields"]) + ">"
    if schema["memberSchema"]:
        key = "STRING, " if schema["type"] == "MAP" else ""
        return f"{schema['type']}<{key}{_type(schema['memberSchema'])}>"
    return str(schema["type"])


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return len(value) if value and isinstance(value[0], int) else ", ".join(map(str, value))
    return value


# --- the terminal


@contextmanager
def line_editing(client: RestClient, history: Path) -> Iterator[Callable[[str], str]]:
    """Yield a function that reads a line, with history and completion where Python has readline."""
    try:
        import readline
    except ImportError:  # a Python without it: lines are read all the same
        yield input
        return
    words = _words(client)

    def complete(text: str, state: int) -> str | None:
        matches = [word for word in words() if word.upper().startswith(text.upper())]
        return matches[state] if state < len(matches) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,()=<>;'\"")
    readline.parse_and_bind("tab: complete")
    readline.set_history_length(_HISTORY_LINES)
    with suppress(OSError):
        readline.read_history_file(history)
    try:
        yield input
    finally:
        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)


def _words(client: RestClient) -> Callable[[], list[str]]:
    """Return a function that gives the words to complete: keywords, and what the server has at the time."""
    from odradek.operations.sql.script import KEYWORDS
    from odradek.sql.server.client import names

    def words() -> list[str]:
        try:
            known_names = names(client.execute("SHOW STREAMS; SHOW TABLES; SHOW TOPICS; SHOW FUNCTIONS;", {}, {}))
        except KafkaError:
            known_names = []
        return sorted({*KEYWORDS, *known_names, "RUN", "SCRIPT", "SHOW", "PRINT", "exit"})

    return words


@contextmanager
def own_server(arguments: Sequence[str], log: Path) -> Iterator[str]:
    """Run a server as a process of its own, which Ctrl-C at the terminal does not reach; yield its URL.

    Args:
        arguments: of `odradek sql-server`.
        log: takes what it writes beside its address.

    Raises:
        KafkaError: it did not start.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "odradek.cli", "sql-server", "--port", "0", *arguments]
    with log.open("w", encoding="utf-8") as errors:
        process = start_child(
            command, os.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            ready = _READY.search(line)
            if ready is not None:
                break
        else:
            process.wait()
            said = [line for line in log.read_text(encoding="utf-8").splitlines() if line.startswith("odradek: ")]
            raise KafkaError(ErrorCode.INVALID_CONFIG, said[-1].removeprefix("odradek: ") if said else f"see {log}")
        yield ready[1]
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_START_S)
        if process.poll() is None:
            process.kill()
            process.wait()
