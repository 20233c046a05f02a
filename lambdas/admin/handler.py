"""admin: topics, partitions, configurations."""

from __future__ import annotations

from odradek.protocol.api import FunctionName

from lambdas.serving import serve

handler = serve(FunctionName.ADMIN)
