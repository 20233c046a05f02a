"""Exact decimals: no digit is ever rounded away, unless `rounded` is asked to.

Python's default context has 28 digits, and a decimal of a database has up to 38, one of PostgreSQL up to 147,455: its
arithmetic, `quantize`, `scaleb`, `normalize` and even `abs` round what is longer. A rule of the repository keeps them
in this module.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow

DIGITS_MAX = 1_000_000
"""Of a number; larger ones are refused, since their conversions take too long."""
_TRAPS = [InvalidOperation, DivisionByZero, Overflow]
_EXACT = Context(prec=DIGITS_MAX, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[*_TRAPS, Inexact])
_ROUNDING = Context(prec=DIGITS_MAX, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=_TRAPS)


def of_unscaled(unscaled: int, scale: int) -> Decimal:
    """Return unscaled / 10^scale."""
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def of_bytes(data: bytes, scale: int) -> Decimal:
    """Return a decimal of its unscaled number in two's complement, the highest byte first."""
    return of_unscaled(int.from_bytes(data, "big", signed=True), scale)


def to_unscaled(value: Decimal, scale: int) -> int:
    """Return value * 10^scale. Raises ValueError if that is no whole number, or one of too many digits."""
    if not value.is_finite() or not fits(value, scale) or value.adjusted() + scale > DIGITS_MAX:
        raise ValueError(f"the decimal {_shown(value)} does not fit a scale of {scale}")
    return int(value.scaleb(scale, _EXACT)) if value else 0


def to_bytes(unscaled: int) -> bytes:
    """Return a whole number in two's complement, the highest byte first, in as few bytes as Java's BigInteger."""
    return unscaled.to_bytes((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True)


def fits(value: Decimal, scale: int) -> bool:
    """Return True if a finite number has at most so many digits behind the point."""
    if value.is_zero():
        return True
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    surplus = -exponent - scale
    return surplus <= 0 or (surplus < len(digits) and not any(digits[-surplus:]))


def is_whole(value: Decimal) -> bool:
    """Return True for a finite number without a fraction."""
    return value.is_finite() and fits(value, 0)


def rescaled(value: Decimal, scale: int) -> Decimal:
    """Return a number with exactly so many digits behind the point. Raises ValueError if it has more of them."""
    if not value.is_finite() or not fits(value, scale):
        raise ValueError(f"the decimal {_shown(value)} does not fit a scale of {scale}")
    return rounded(value, scale)


def rounded(value: Decimal, scale: int) -> Decimal:
    """Return a finite number with `scale` digits after the point, rounded half to even.

    Raises:
        ValueError: it has too many digits.
    """
    try:
        return value.quantize(Decimal((0, (1,), -scale)), context=_ROUNDING)
    except InvalidOperation:
        raise ValueError(f"the decimal {_shown(value)} has too many digits for a scale of {scale}") from None


def limited(value: Decimal, digits: int) -> Decimal:
    """Return a number. Raises ValueError if it has more digits than that."""
    try:
        return Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[InvalidOperation, Inexact]).plus(value)
    except Inexact:
        raise ValueError(f"the decimal {_shown(value)} has more than {digits} digits") from None


def shortest(value: Decimal) -> Decimal:
    """Return a number without zeros at its end."""
    return value.normalize(_EXACT)


def _shown(value: Decimal) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
