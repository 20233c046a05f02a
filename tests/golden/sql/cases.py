"""Golden cases of stream SQL: what each statement form comes to, and what each refusal says.

    === title
    the script, after SOURCES
    ---
    what it comes to: one JSON document for each of its statements, or the error as a user sees it

`python -m tests.golden.sql.cases` writes the second halves anew: read the difference before you commit it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from odradek.sql.parse import parse
from odradek.sql.plan import Action, Inserted, Said, Selected, Started
from odradek.sql.position import SqlError
from odradek.sql.script import Planner

FOLDER = Path(__file__).parent
FILES = ("statements.txt", "expressions.txt", "errors.txt")
SOURCES = """
CREATE STREAM orders (id VARCHAR KEY, customer BIGINT, item VARCHAR, price DOUBLE, count INT, tags ARRAY<VARCHAR>,
    extra MAP<VARCHAR, INT>, address STRUCT<city VARCHAR, zip INT>, placed TIMESTAMP, day DATE, cost DECIMAL(8, 2),
    paid BOOLEAN, raw BYTES) WITH (KAFKA_TOPIC = 'orders', VALUE_FORMAT = 'JSON');
CREATE STREAM payments (id VARCHAR KEY, amount DOUBLE) WITH (KAFKA_TOPIC = 'payments', VALUE_FORMAT = 'JSON');
CREATE STREAM refunds (id VARCHAR KEY, amount DOUBLE) WITH (KAFKA_TOPIC = 'refunds', VALUE_FORMAT = 'JSON');
CREATE TABLE customers (customer BIGINT PRIMARY KEY, name VARCHAR, country VARCHAR)
    WITH (KAFKA_TOPIC = 'customers', VALUE_FORMAT = 'JSON');
CREATE TABLE countries (country VARCHAR PRIMARY KEY, title VARCHAR)
    WITH (KAFKA_TOPIC = 'countries', VALUE_FORMAT = 'JSON');
CREATE TABLE hourly (item VARCHAR PRIMARY KEY, n BIGINT) WITH (KAFKA_TOPIC = 'hourly', VALUE_FORMAT = 'JSON',
    WINDOW_TYPE = 'TUMBLING', WINDOW_SIZE = '1 HOURS');
"""


@dataclass(frozen=True)
class Case:
    title: str
    script: str
    wanted: str


def read(name: str) -> list[Case]:
    cases = []
    for block in (FOLDER / name).read_text(encoding="utf-8").split("=== ")[1:]:
        title, _, body = block.partition("\n")
        script, _, wanted = body.partition("\n---\n")
        cases.append(Case(title.strip(), script, wanted.strip("\n")))
    return cases


def outcome(script: str, *, brief: bool = False) -> str:
    """Return the plan of a script, or its error, as text; `brief` gives the statement of a query alone."""
    planner = Planner()
    for statement in parse(SOURCES):
        planner.plan(statement)
    shown_actions = []
    try:
        for statement in parse(script):
            action = planner.plan(statement)
            shown_actions.append(action.plan.sql if brief and isinstance(action, Selected) else shown(action))
    except SqlError as error:
        return str(error.located(script))
    return "\n".join(shown_actions)


def shown(action: Action) -> str:
    if isinstance(action, Said):
        return action.text
    if isinstance(action, Selected | Started | Inserted):
        document = action.plan.document()
        if isinstance(action, Started):
            document["makes"] = asdict(action.source) if action.source else None
            document["replaces"] = action.replaces
    else:
        document = {"action": type(action).__name__, **asdict(action)}
    return "{\n" + ",\n".join(_lines(document)) + "\n}"


def _lines(document: dict[str, object]) -> list[str]:
    """One line a field, without what is empty; a source's columns as they are declared."""
    lines = []
    for name, value in document.items():
        if isinstance(value, dict):
            value = {k: v for k, v in value.items() if v not in (None, "", (), [], 0)}
            if "columns" in value:
                value["columns"] = [_column(column) for column in value["columns"]]
        if name == "inputs" and isinstance(value, list | tuple):
            inner = ",\n".join("    " + json.dumps({k: v for k, v in e.items() if v is not None}) for e in value)
            lines.append(f'  "inputs": [\n{inner}\n  ]')
        elif value not in (None, "", (), []):
            lines.append(f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
    return lines


def _column(column: object) -> object:
    if not isinstance(column, dict):
        return column
    role = " KEY" if column["is_key"] else ""
    return f"{column['name']} {_type(column['type'])}{role}{'' if column['in_value'] or role else ' ?'}"


def _type(data_type: dict[str, object]) -> str:
    inner = data_type["inner"]
    assert isinstance(inner, tuple)
    name = str(data_type["name"])
    if name == "DECIMAL":
        name += f"({data_type['precision']}, {data_type['scale']})"
    return name + (f"<{', '.join(_type(inner_type) for inner_type in inner)}>" if inner else "")


def write(name: str) -> None:
    cases = read(name)
    brief = name == "expressions.txt"
    text = "".join(f"=== {c.title}\n{c.script}\n---\n{outcome(c.script, brief=brief)}\n\n" for c in cases)
    (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for file in FILES:
        write(file)
