"""The error of the demo: a sentence for people."""

from __future__ import annotations

from odradek.errors import OdradekError


class DemoFailed(OdradekError):
    """A step failed; the message names the step, and where to look."""
