"""`python -m odradek.cli`."""

from __future__ import annotations

from odradek.cli import main

main()
