"""Python's collector of cyclic garbage, in a process that Lambda runs.

A cold start imports some hundred thousand objects that stay. The collector looks through them two hundred times while
they are made, an eighth of the processor's time until the function is ready, and finds next to nothing. So it rests
until the first request; from then on it passes over what is there (`gc.freeze`), also in the full collections that
requests would wait for.
"""

from __future__ import annotations

import gc


def rest() -> None:
    """Collect nothing before `settle`."""
    gc.disable()


def settle() -> None:
    """End the rest: what is there by now stays, and is not looked at again. Nothing without a rest."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
