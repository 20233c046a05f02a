"""The statements about connectors, for a Connect cluster: CREATE, DROP, SHOW and DESCRIBE CONNECTOR.

Connectors are not of the script: they are there before it and stay after it. So nothing of them is in the planner's
state, and whether one exists is found out when the statement runs.
"""

from __future__ import annotations

from odradek.sql.plan import OfConnectors
from odradek.sql.position import SqlError
from odradek.sql.syntax import CreateConnector, Describe, DropConnector, Show

_CLASS = "connector.class"


def plan_connector(statement: CreateConnector | DropConnector | Show | Describe) -> OfConnectors:
    """Return the action of a statement. Raises SqlError."""
    if isinstance(statement, Show):
        return OfConnectors("plugins" if statement.what == "CONNECTOR PLUGINS" else "list", kind=statement.kind.lower())
    name = statement.name.text
    if isinstance(statement, Describe):
        return OfConnectors("describe", name)
    if isinstance(statement, DropConnector):
        return OfConnectors("drop", name, is_lenient=statement.if_exists)
    given: dict[str, str] = {}
    for each in statement.properties:
        option = each.name.written or each.name.text
        if option in given:
            raise SqlError(f"{option} is given twice", each.name.at)
        given[option] = each.value
    if not given.get(_CLASS):
        raise SqlError(f"WITH ('{_CLASS}' = '...') is required: what kind of connector is {name}?", statement.name.at)
    return OfConnectors("create", name, statement.kind.lower(), tuple(given.items()), statement.if_not_exists)
