"""Groups of commands that a shell completes quickly."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class CommandGroup(TyperGroup):
    """A group of commands, for `typer.Typer(cls=CommandGroup)`.

    Typer converts the values of options with Pydantic, which takes a quarter of a second to import. A group's options
    (--help, --version) have no values to complete, so during completion they are offered and not parsed.
    """

    _is_completing = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        self._is_completing = bool(ctx.resilient_parsing)
        try:
            return super().parse_args(ctx, args)
        finally:
            self._is_completing = False

    def get_params(self, ctx: Any) -> list[Any]:
        return [] if self._is_completing else super().get_params(ctx)
