"""fetch: Fetch, ListOffsets, OffsetForLeaderEpoch. Reads heads, index rows and ranges of objects; writes nothing."""

from __future__ import annotations

from odradek.protocol.api import FunctionName

from lambdas.serving import serve

handler = serve(FunctionName.FETCH)
