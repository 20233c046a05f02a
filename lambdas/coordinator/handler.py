"""coordinator: discovery, Metadata, producer ids, consumer groups and their offsets, transactions."""

from __future__ import annotations

from odradek.protocol.api import FunctionName

from lambdas.serving import serve

handler = serve(FunctionName.COORDINATOR)
