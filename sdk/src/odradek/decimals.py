"""Decimals without rounding: Python's own context rounds at 28 digits, a column of a table has up to 38."""

from __future__ import annotations

from decimal import Context, Decimal, Inexact

_EXACT = Context(prec=10_000)
_UNROUNDED = Context(prec=10_000, traps=[*(trap for trap, is_set in Context().traps.items() if is_set), Inexact])


def of_unscaled(unscaled: int, scale: int) -> Decimal:
    """Return unscaled / 10 ** scale."""
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def at_scale(value: Decimal, scale: int) -> Decimal:
    """Return a number with this many digits behind the point. Raises ArithmeticError if digits would be lost."""
    return value.quantize(of_unscaled(1, scale), context=_UNROUNDED)


def rounded(value: Decimal, scale: int) -> Decimal:
    """Return a number rounded, half to even, to this many digits behind the point. Raises ArithmeticError."""
    return value.quantize(of_unscaled(1, scale), context=_EXACT)
