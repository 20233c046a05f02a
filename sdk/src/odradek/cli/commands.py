"""The names of the commands, their homes and their summaries; what `odradek --help` prints, without any library.

Typer and Rich take half a second of CPU to import and to draw a table. A command's own help has them.

The commands of Odradek's own distributions are in COMMANDS, whether they are installed or not: one that is not names
its extra. Other distributions add commands by entry points of the group `odradek.commands`, such as
`mine = "my_package.commands:mine"`, which is a function or a typer.Typer; its name must not be one of ours.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_SUMMARY_COLUMN, _WIDTH = 16, 100


class Home(NamedTuple):
    """The home of a command: a module below odradek.cli, and its function or its group of commands (typer.Typer)."""

    module: str
    name: str
    summary: str  # the beginning of its help


COMMANDS: Mapping[str, Home] = {
    "local": Home("service.local", "local", "Run Odradek durably on this machine until Ctrl-C"),
    "env": Home("service.env", "env", "Print what other shells and programs need to use the embedded service"),
    "gateway": Home("service.gateway", "gateway", "Serve Kafka clients until Ctrl-C"),
    "console": Home(
        "service.console", "console", "Open the console in a browser: topics, records, groups, schemas, security, cost"
    ),
    "topics": Home("admin.topics", "topics", "Create, alter, list, describe and delete topics"),
    "produce": Home("records.produce", "produce", "Send each line of standard input as a record"),
    "consume": Home("records.consume", "consume", "Print records, one per line, up to the present end of the topic"),
    "search": Home("records.search", "search", "Print records that match, the newest first"),
    "offsets": Home(
        "admin.offsets", "offsets", "Print first offset, next offset and number of records of each partition of a topic"
    ),
    "top": Home("admin.top", "top", "Show what happens now, until Ctrl-C"),
    "groups": Home("admin.groups", "groups", "List, describe and delete groups; change their offsets"),
    "triggers": Home("admin.triggers", "triggers", "Call functions with the new records of a topic"),
    "tables": Home("records.tables", "tables", "Serve compacted topics as tables; read rows by key"),
    "schemas": Home("admin.schemas", "schemas", "List, compare, check, register and delete schemas"),
    "transactions": Home("admin.transactions", "transactions", "List and abort transactions"),
    "users": Home("admin.users", "users", "Create, list and delete users of the Kafka port"),
    "quotas": Home("admin.quotas", "quotas", "Set, list and remove client quotas"),
    "acls": Home("admin.acls", "acls", "Create, list and delete ACLs"),
    "apply": Home("admin.cluster_file", "apply", "Make the service as a cluster file says, after showing the changes"),
    "export": Home(
        "admin.cluster_file",
        "export",
        "Print topics, users, ACLs, quotas, schemas, connectors and stream SQL as a cluster file",
    ),
    "jobs": Home("pipeline.jobs", "jobs", "List the installed jobs, run them here, and steer runs on Glue"),
    "sql": Home("pipeline.sql", "sql", "Run scripts of stream SQL"),
    "sql-server": Home("pipeline.sql_server", "sql_server", "Serve ksqlDB's REST API over stream SQL"),
    "query": Home("records.query", "query", "Run SQL over topics, up to the last record that was acknowledged"),
    "connect": Home("connect.connectors", "connect", "Run connectors: data into topics and out of them"),
    "perf": Home("records.perf", "perf", "Measure producing and consuming"),
    "audit": Home(
        "service.audit",
        "audit",
        "Check that everything in the log can be read, and that nothing is stored without need",
    ),
    "backup": Home("service.backup", "backup", "Back up an embedded service, which may be running"),
    "restore": Home(
        "service.backup",
        "restore",
        "Restore an embedded service from a backup, or a deployment on AWS to an earlier second",
    ),
    "mcp": Home("service.mcp", "mcp", "Serve agents over the Model Context Protocol on standard input and output"),
    "cost": Home("service.cost", "cost", "Estimate the cost of a workload"),
    "configure": Home(
        "service.configure",
        "configure",
        "Save the outputs of a deployment's stacks as a profile, which becomes the default",
    ),
    "doctor": Home(
        "service.doctor",
        "doctor",
        "Check a deployment, or the embedded service, from this machine, and advise on each problem",
    ),
    "demo": Home("pipeline.demo", "demo", "Stream a year of New York's flights through the functions"),
    "completion": Home("completion", "completion", "Print the completion script of a shell"),
}

GROUP = "odradek.commands"


def other_commands() -> Mapping[str, EntryPoint]:
    """Return the commands of other distributions, by name."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP) if point.name not in COMMANDS}


_HEAD = """\
Usage: odradek [OPTIONS] COMMAND [ARGS]...

Apache Kafka with no servers.

Start with `odradek local`, then `odradek topics create t`. `odradek COMMAND --help` explains a command.

Options:
  --version           Print the version and exit.
  --config-file PATH  Properties of clients, with Kafka's names; or ODRADEK_CLIENT_CONFIG.
  -h, --help          Show this message and exit.

Commands:
"""


def help_text() -> str:
    """Return the help of the program."""
    lines = []
    summaries = {name: home.summary for name, home in COMMANDS.items()}
    summaries |= {
        name: f"Of {point.dist.name if point.dist else point.module}" for name, point in other_commands().items()
    }
    for name, summary in summaries.items():
        indent = " " * _SUMMARY_COLUMN
        lines += textwrap.wrap(
            f"{summary}.",
            _WIDTH,
            initial_indent=f"  {name}".ljust(_SUMMARY_COLUMN),
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
    return _HEAD + "\n".join(lines)
