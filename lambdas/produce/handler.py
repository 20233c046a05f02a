"""produce: Produce. The batches of a request become one object (or item), then one conditional update per partition."""

from __future__ import annotations

from odradek.protocol.api import FunctionName

from lambdas.serving import serve

handler = serve(FunctionName.PRODUCE)
