"""What statements did, in ksqlDB's words: the ids of commands, of which its clients know a few kinds, and messages."""

from __future__ import annotations

from odradek.sql.plan import Action, Declared, Dropped, Said, Started, Terminated
from odradek.sql.server.command_log import Command
from odradek.sql.server.entities import Json, command_status, entity
from odradek.sql.syntax import Alter, Create, CreateType, Drop, InsertSelect, Name, Statement


def about(statement: Statement, action: Action) -> str:
    """Return what a statement is about, as the log has it: its kind and name."""
    if isinstance(action, Started) and isinstance(statement, InsertSelect):
        return f"query/{action.plan.query_id}"
    if isinstance(action, Declared | Started) and action.source is not None:
        return f"{action.source.kind.lower()}/{action.source.name}"
    if isinstance(action, Terminated):
        return f"query/{action.query_ids[0] if len(action.query_ids) == 1 else 'ALL'}"
    if isinstance(statement, CreateType):
        return f"type/{statement.name.text}"
    kind, name = getattr(statement, "kind", "statement"), getattr(statement, "name", None)
    return f"{kind.lower()}/{name.text if isinstance(name, Name) else ''}"


def kind_and_name(statement: Statement, command: Command) -> str:
    """Return the begin of a command's id, of which ksqlDB's clients know a few kinds; a query is none of them."""
    kind, _, name = command.about.partition("/")
    if isinstance(statement, InsertSelect):
        return f"stream/{statement.target.text}"
    return f"{'terminate' if kind == 'query' else kind}/{name}"


def already_so(statement: Statement, text: str, number: int) -> Json | None:
    """Return the answer to a CREATE ... IF NOT EXISTS or DROP ... IF EXISTS that had nothing to do."""
    if isinstance(statement, Create):
        kind = statement.kind.lower()
        message = f"Cannot add {kind} `{statement.name.text}`: a stream or table with the same name already exists"
        return entity("warning_entity", text, message=message)
    if isinstance(statement, Drop):
        name = statement.name.text
        command_id = f"{statement.kind.lower()}/{name}/drop"
        return command_status(text, command_id, f"Source `{name}` does not exist.", number, None)
    if isinstance(statement, CreateType):
        name = statement.name.text
        end, message = ("drop", f"Type '{name}' does not exist") if statement.type is None else (
            "create", f"{name} is already registered"
        )  # fmt: skip
        return command_status(text, f"type/{name}/{end}", message, number, None)
    return None


def outcome(statement: Statement, action: Action) -> tuple[str, str, str | None]:
    """Return what a statement did: a word, a message, the id of the query that it started."""
    if isinstance(action, Started):
        query_id = action.plan.query_id
        return "create", f"Created query with ID {query_id}", query_id
    if isinstance(action, Declared):
        return "create", f"{action.source.kind.title()} created", None
    if isinstance(action, Dropped):
        topic = " (topic was deleted)" if action.delete_topic else " (topic was not deleted)"
        return "drop", f"Source `{action.name}`{topic}.", None
    if isinstance(action, Terminated):
        return "execute", "Query terminated.", None
    said = action.text if isinstance(action, Said) else ""
    if isinstance(statement, CreateType):
        return ("create" if statement.type is not None else "drop"), said, None
    return ("alter" if isinstance(statement, Alter) else "execute"), said, None
