"""Output of results: `--output table|json|yaml`, with the same names in all commands.

A result is rows (mappings of column to value) or plain data of mappings, lists and scalars. Tables are for people:
numbers are right-aligned, there is a header, and on a terminal a table fits its width. JSON and YAML are for programs:
the same names in snake_case, numbers as numbers, nothing left out. The YAML writer is a few lines here, so that the
base wheel needs no library for it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

Row = Mapping[str, Any]
_NAME = 32  # characters of a cell that is not broken, where there is another one to break
_WIDE = 1_000_000  # wider than any table
_PLAIN_YAML = re.compile(r"[A-Za-z_/][\w./ -]*[\w/]|[A-Za-z]")
_YAML_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


class Output(StrEnum):
    """The format of a result."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[Output, typer.Option("--output", help="How to print the result.")]


def show_rows(
    rows: Sequence[Row],
    columns: Sequence[str],
    output: Output = Output.TABLE,
    *,
    headers: Sequence[str] = (),
    title: str = "",
) -> None:
    """Print rows.

    Args:
        rows: each with the columns; a table omits other keys.
        columns: of a table.
        headers: of the columns; without them, the columns with spaces in place of underscores.
        title: above a table.
    """
    if not show_data([dict(row) for row in rows], output):
        show(table_of(rows, columns, headers=headers, title=title))


def show_data(data: Any, output: Output) -> bool:
    """Print plain data as JSON or YAML and return True; for a table, print nothing and return False."""
    if output is Output.JSON:
        typer.echo(on_screen(json.dumps(data, indent=2, ensure_ascii=False)))
    elif output is Output.YAML:
        typer.echo(on_screen(as_yaml(data)), nl=False)
    return output is not Output.TABLE


def table_of(rows: Sequence[Row], columns: Sequence[str], *, headers: Sequence[str] = (), title: str = "") -> Table:
    """Return a table of rows; a column that holds only numbers is right-aligned."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column, header in zip(columns, headers or [column.replace("_", " ") for column in columns], strict=True):
        values = [row.get(column) for row in rows]
        is_number = any(_is_number(value) for value in values)
        is_number = is_number and all(value is None or _is_number(value) for value in values)
        is_short = is_number or max((len(cell(value)) for value in values), default=0) <= _NAME
        table.add_column(Text(header), justify="right" if is_number else "left", no_wrap=is_short, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(row.get(column))) for column in columns))
    return table


def show(table: Table) -> None:
    """Print a table without losing a character: names and ids are copied, and `grep` looks for them.

    In a pipe it is as wide as it needs to be. On a terminal long cells continue on the next line.
    """
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        whole = console.measure(table, options=console.options.update(max_width=_WIDE)).maximum
        console = Console(markup=False, highlight=False, width=max(whole, 1))
    elif console.measure(table).minimum > console.width:
        for column in table.columns:
            column.no_wrap = column.justify == "right"
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def on_screen(text: str) -> str:
    """Return text of records as a terminal may have it: without control characters, which could steer it.

    A pipe or a file gets it as it is.
    """
    if not sys.stdout.isatty():
        return text
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def write_data(data: bytes) -> None:
    """Write bytes of records to standard output: as they are, but on a terminal as `on_screen` says."""
    if sys.stdout.isatty():
        data = on_screen(data.decode("utf-8", "backslashreplace")).encode()
    sys.stdout.buffer.write(data)


def cell(value: Any) -> str:
    """Return the text of a value in a table."""
    return on_screen(_cell(value))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    return str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_yaml(data: Any) -> str:
    """Write mappings, lists and scalars as YAML 1.2 in block style, with a line break at the end."""
    return "\n".join(_block(data)) + "\n"


def _block(data: Any) -> Iterator[str]:
    """Yield the lines of a value without indentation."""
    if isinstance(data, Mapping) and data:
        for name, value in data.items():
            yield from _under(f"{_scalar(name)}:", value)
    elif isinstance(data, list | tuple) and data:
        for value in data:
            first, *more = _block(value)
            yield f"- {first}"
            yield from (f"  {line}" for line in more)
    else:
        yield _scalar(data)


def _under(head: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple) and value:
        yield head
        yield from (f"  {line}" for line in _block(value))
    elif isinstance(value, str) and _is_literal(value):
        yield f"{head} {'|' if value.endswith(chr(10)) else '|-'}"
        yield from (f"  {line}" if line else "" for line in value.removesuffix("\n").split("\n"))
    else:
        yield f"{head} {_scalar(value)}"


def _is_literal(text: str) -> bool:
    """Return True for lines of text that a block of YAML can hold as they are."""
    body = text.removesuffix("\n")
    lines = body.split("\n")
    return (
        "\n" in text
        and body == body.strip() != ""
        and all(line.isprintable() and (not line or not line.isspace()) for line in lines)
    )


def _scalar(value: Any) -> str:
    """Write a scalar or an empty collection; quote text that could be read as another type."""
    if isinstance(value, str):
        is_plain = _PLAIN_YAML.fullmatch(value) is not None and value.lower() not in _YAML_WORDS
        return value if is_plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{}"
    return "[]" if isinstance(value, tuple) else json.dumps(value)
