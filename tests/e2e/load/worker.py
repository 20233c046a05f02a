"""A local service whose store misbehaves: `python -m tests.e2e.load.worker DATA_DIR SHARE SEED`.

It prints `ready URL`; each line on standard input is a share of calls that fail from then on (`share 0.05`, answered
by `counts {...}`: calls and faults so far, by name), and the end of standard input ends it.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any

import odradek.local.service
from odradek.adapters.embedded import open_embedded
from odradek.local.service import LocalService
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import preload
from odradek.settings import Settings

from tests.e2e.load.misbehaving import MisbehavingStore, Misbehaviour

# Small, so that a short run meets spills, evicted producers, merges and sweeps.
SETTINGS = {
    "spill_entries": 4,
    "paged_appends": 12,
    "producers_in_head_max": 8,
    "producers_bytes_max": 80,
    "maintenance_interval_ms": 1_000,
    "maintenance_lease_ms": 5_000,
    "merge_rows_min": 8,
    "merge_delay_ms": 3_000,
    "merge_age_ms": 5_000,
    "sweep_interval_ms": 5_000,
    "sweep_horizon_ms": 40_000,
    "transaction_timeout_ms_max": 5_000,
    "group_session_timeout_ms": 15_000,
    "group_heartbeat_interval_ms": 1_500,
}


async def serve(data_dir: Path, misbehaviour: Misbehaviour) -> None:
    """One service until standard input ends."""
    odradek.local.service.open_embedded = (  # type: ignore[attr-defined]
        lambda *args, **options: MisbehavingStore(open_embedded(*args, **options), misbehaviour)
    )
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    service = LocalService(data_dir, settings=Settings(**SETTINGS), synchronous="NORMAL")  # type: ignore[arg-type]
    async with service:
        print(f"ready {service.bootstrap_servers}", flush=True)
        while line := await lines.readline():
            misbehaviour.share = float(line.split()[1])
            print("counts " + json.dumps(misbehaviour.counts()), flush=True)
        misbehaviour.share = 0.0


def main() -> None:
    data_dir, share, seed = sys.argv[1:]
    preload(ApiKey)
    chance: Any = random.Random(int(seed))
    asyncio.run(serve(Path(data_dir), Misbehaviour(chance, float(share))))


if __name__ == "__main__":
    main()
