"""The command line: `odradek --help`.

Every error is one line with Kafka's error name. No stack trace reaches a user; for a bug, ODRADEK_TRACEBACK=1 shows it.

    commands.py    their names and summaries; app.py makes the tree of them
    admin/         topics, groups, offsets, users, acls
    records/       produce, consume, perf
    service/       local, gateway, configure, doctor, audit, backup, restore, cost
    connect/       connectors and their workers
    pipeline/      jobs, sql, demo; demo/ holds the demo's job and checks
    connection.py  options that every command shares; output.py prints results, screen.py progress and questions

Exit codes: 0 done, 1 refused or failed, 2 wrong usage or configuration, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys

from odradek.errors import ErrorCode, KafkaError, OdradekError
from odradek.extras import MissingExtra, extra_of


def main() -> None:
    """The `odradek` command."""
    signal.signal(signal.SIGINT, _interrupt)
    sys.exit(run(sys.argv[1:]))


def _interrupt(*_: object) -> None:
    """Let a command close its clients at the first Ctrl-C; end it at once at the second, before they complain."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    raise KeyboardInterrupt


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    if "ODRADEK_PARENT" in os.environ:  # imported then only: a command starts fast
        from odradek.child_process import end_with_parent

        end_with_parent(os.environ)
    if arguments and arguments[0] == "--version":
        from importlib.metadata import version

        print(f"odradek {version('odradek')}")
        return 0
    is_completing = "_ODRADEK_COMPLETE" in os.environ  # a shell asks for words
    if not is_completing and (not arguments or arguments[0] in ("--help", "-h")):
        from odradek.cli.commands import help_text

        print(help_text())
        return 0 if arguments else 2
    try:
        import typer

        from odradek.cli.app import app
    except ModuleNotFoundError as error:  # the client alone is installed
        return _missing(error, arguments)

    if is_completing:  # without its own options Typer is not ready for it
        from typer._completion_classes import completion_init

        completion_init()
    try:
        result = app(arguments, standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        return _failed("interrupted", 130)
    except typer.Exit as stop:
        return stop.exit_code
    except _usage_error() as error:
        error.show()  # type: ignore[attr-defined]
        return 2
    except KafkaError as error:
        return _failed(str(error), 2 if error.code is ErrorCode.INVALID_CONFIG else 1)
    except OSError as error:
        reason = error.strerror or str(error)
        return _failed(reason if error.filename is None else f"{error.filename}: {reason}", 1)
    except OdradekError as error:
        return _failed(str(error), 1)
    except ModuleNotFoundError as error:
        return _missing(error, arguments)
    except Exception as error:
        return _unexpected(error)
    return result if isinstance(result, int) else 0


def _missing(error: ModuleNotFoundError, arguments: list[str]) -> int:
    """Name the extra to install: the command's, where a part of the command line is missing as a whole."""
    from odradek.cli.commands import COMMANDS

    name = extra_of(error.name)
    if name == "cli" and arguments and arguments[0] in COMMANDS:
        name = extra_of(f"odradek.cli.{COMMANDS[arguments[0]].module}")
    return _unexpected(error) if name is None else _failed(str(MissingExtra(name)), 2)


def _unexpected(error: Exception) -> int:
    """Report a bug in one line, or raise it if ODRADEK_TRACEBACK is set."""
    if os.environ.get("ODRADEK_TRACEBACK"):
        raise error
    return _failed(
        f"unexpected {type(error).__name__}: {error}. This is a bug in Odradek: please report it with the output of "
        "ODRADEK_TRACEBACK=1",
        1,
    )


def _usage_error() -> type[Exception]:
    """Return the base class of Typer's errors about arguments; recent versions of Typer bundle Click."""
    import typer

    return next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def _failed(message: str, code: int) -> int:
    print(f"odradek: {message}", file=sys.stderr)
    return code
