"""The one way in which the demo fails: a sentence for people."""

from __future__ import annotations

from odradek.errors import OdradekError


class DemoFailed(OdradekError):
    """A step did not do what it should; the message says which, and what to look at."""
