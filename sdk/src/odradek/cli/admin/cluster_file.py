"""`odradek apply` and `odradek export`: what a service has, as one file. docs/cluster-file.md describes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, connected
from odradek.cli.output import Output, OutputOption, as_yaml, on_screen, show_data
from odradek.cli.screen import confirm
from odradek.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from odradek.operations.cluster_file.contents import ClusterFile
    from odradek.operations.cluster_file.plan import Change, Difference, Plan

_SIGNS = {"create": "+", "change": "~", "delete": "-"}
_DONE = {"create": "created", "change": "changed", "delete": "deleted"}
_VALUE_CHARACTERS = 60  # of a value in the plan; JSON and YAML have it whole
_BEYOND_MAX = 20  # entries that the file does not have, by name

RegistryUrl = Annotated[
    str | None, typer.Option("--registry", help="URL of the registry of a Kafka port: https://user:password@host")
]


def apply(
    file: Annotated[Path, typer.Option("--file", "-f", help="The cluster file, in YAML.", exists=False)],
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Delete what the file's sections do not have, and reset configurations."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes, and make none.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="As --dry-run, but exit with 1 if the service differs from the file.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before something is deleted.")] = False,
    registry: RegistryUrl = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make the service as a cluster file says, after showing the changes: topics, users, ACLs, quotas, schemas,
    connectors, stream SQL.

    Applied again, it changes nothing. A section that the file does not have is left alone, and so is what the service
    has beyond the file, unless --prune deletes it.

    Example: [bold]odradek apply -f cluster.yaml --dry-run[/bold]
    """
    import asyncio

    from odradek.operations.cluster_file.reading import read_file

    wanted = read_file(file)
    is_changed = asyncio.run(
        _apply(wanted, bootstrap_servers, data_dir, registry, output, prune=prune, dry_run=dry_run or check, yes=yes)
    )
    if check and is_changed:
        raise typer.Exit(1)


async def _apply(
    wanted: ClusterFile,
    bootstrap_servers: str,
    data_dir: Path,
    registry: str | None,
    output: Output,
    *,
    prune: bool,
    dry_run: bool,
    yes: bool,
) -> bool:
    """Plan, show and carry out; return True if the service differed from the file."""
    from odradek.operations.cluster_file.applying import apply_plan
    from odradek.operations.cluster_file.checks import problems
    from odradek.operations.cluster_file.plan import make_plan
    from odradek.operations.cluster_file.present import present as present_contents

    async with connected(bootstrap_servers, data_dir, registry_url=registry) as cluster:
        present = await present_contents(cluster, wanted)
        plan = make_plan(wanted, present, prune=prune)
        failures = await problems(cluster, plan, os.environ)
        is_shown = show_data([_row(change) for change in plan.changes], output)
        if not is_shown:
            _show(plan, is_first_acl=present.acls is not None and not present.acls)
        if failures:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "\n".join([*failures, "nothing was changed"]))
        if dry_run or not plan.changes:
            return bool(plan.changes)
        deleted = sum(change.action == "delete" for change in plan.changes)
        if deleted:
            confirm(
                f"Delete {_count(deleted, 'entry', 'entries')} of the service, with all that they contain?", yes=yes
            )

        def done(change: Change) -> None:
            if not is_shown:
                typer.echo(on_screen(f"{_DONE[change.action]} {change.name}"))

        await apply_plan(cluster, plan, wanted, present, os.environ, done)
        return True


def _row(change: Change) -> dict[str, Any]:
    from odradek.operations import plain

    return {
        "action": change.action.value,
        "section": change.section,
        "name": change.name,
        "differences": plain(change.differences),
    }


def _show(plan: Plan, *, is_first_acl: bool) -> None:
    """Print a plan for people."""
    for change in plan.changes:
        typer.echo(on_screen(f"{_SIGNS[change.action]} {change.name}"))
        for difference in change.differences:
            for line in _lines(difference):
                typer.echo(on_screen(f"    {line}"))
    if is_first_acl and any(change.section == "acls" for change in plan.changes):
        typer.echo("! from the first ACL on, everything that no ACL allows is denied, also to you", err=True)
    counts = {sign: sum(change.action == action for change in plan.changes) for action, sign in _SIGNS.items()}
    if plan.changes:
        typer.echo(f"{counts['+']} to create, {counts['~']} to change, {counts['-']} to delete")
    else:
        typer.echo("nothing to change: the service is as the file says")
    if plan.beyond:
        shown = ", ".join(plan.beyond[:_BEYOND_MAX])
        more = f" and {len(plan.beyond) - _BEYOND_MAX} more" if len(plan.beyond) > _BEYOND_MAX else ""
        typer.echo(on_screen(f"not in the file, and kept without --prune: {shown}{more}"))


def _lines(difference: Difference) -> list[str]:
    """Return a difference: one line, or those of two texts that differ."""
    from odradek.operations.schemas import difference as lines_of

    before, after = difference.before, difference.after
    if before is not None and after is not None and "\n" in before + after:
        changed = [f"  {line.sign} {line.text}" for line in lines_of(before, after) if line.sign != " "]
        return [f"{difference.field}:", *changed]
    if before is None:
        return [f"{difference.field}: {_short(after)}"]
    return [f"{difference.field}: {_short(before)} -> {'(default)' if after is None else _short(after)}"]


def _short(value: str | None) -> str:
    text = " ".join((value or "").split())
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[: _VALUE_CHARACTERS - 3]}..."


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def export(
    to: Annotated[Path | None, typer.Option("--file", "-f", help="File to write; without it, standard output.")] = None,
    sql_server: Annotated[
        str, typer.Option("--sql-server", help="URL of a server of stream SQL, whose statements are written, too.")
    ] = "",
    registry: RegistryUrl = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Print topics, users, ACLs, quotas, schemas, connectors and stream SQL as a cluster file, for `odradek apply`.

    Passwords are not in it: users name an environment variable. Secrets of connectors are hidden; applied to the same
    service they stay as they are.

    Example: [bold]odradek export -f cluster.yaml[/bold]
    """
    import asyncio

    contents, left_out = asyncio.run(_export(bootstrap_servers, data_dir, registry, sql_server))
    for line in left_out:
        typer.echo(f"left out: {line}", err=True)
    from odradek.operations.cluster_file.contents import document

    sections = document(contents)
    text = as_yaml(sections) if sections else ""
    if to is None:
        typer.echo(on_screen(text), nl=False)
        return
    to.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {to}: {', '.join(sections) or 'the service has nothing'}")


async def _export(
    bootstrap_servers: str, data_dir: Path, registry: str | None, sql_server: str
) -> tuple[ClusterFile, list[str]]:
    from odradek.operations.cluster_file.present import exported

    async with connected(bootstrap_servers, data_dir, registry_url=registry) as cluster:
        return await exported(cluster, sql_server)
