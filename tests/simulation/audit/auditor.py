"""The auditor: what must be true of a run, from the witness's ledger, the actors' history and the store.

    books/ledger.py    at every single write: heads, index, deletions, commits
    books/             classic_book.py, share_book.py: at every write of such a group, and what members are told
    history.py         what producers and consumers saw (Jepsen's checks)
    store.py           what is stored in the end
    groups.py          groups of both protocols: at least once
    keys.py            the order of keys of a topic that grows
    shares.py          share groups
    transactions.py    atomicity, exactly once, cycles
    starts.py          retention and DeleteRecords
    epochs.py          leader epochs
    truth.py           the true logs, from the ledger

docs/CORRECTNESS.md says which guarantee each of them is about.
"""

from __future__ import annotations

from odradek.format.item_keys import partition_pk

from tests.simulation.audit.epochs import audit_epochs
from tests.simulation.audit.groups import audit_groups
from tests.simulation.audit.history import audit_history
from tests.simulation.audit.keys import audit_keys
from tests.simulation.audit.shares import audit_shares
from tests.simulation.audit.starts import audit_starts
from tests.simulation.audit.store import audit_log
from tests.simulation.audit.transactions import audit_transactions
from tests.simulation.audit.truth import true_logs
from tests.simulation.world import Process, World


async def audit(world: World, auditor: Process) -> list[str]:
    """Everything that is wrong; empty for a right run."""
    logs, problems = true_logs(world.ledger, world.clock.now_ms())
    problems += audit_history(logs, world.history)
    problems += audit_groups(world.ledger, world.history, logs)
    problems += audit_keys(world.history, logs)
    problems += audit_shares(world.ledger, world.history, logs)
    problems += audit_transactions(world.ledger, world.history, logs)
    problems += audit_starts(world.ledger, world.history, logs)
    for log in logs.values():
        if not log.is_gone:
            problems += await audit_log(auditor.engine, log)
            problems += await audit_epochs(auditor.engine, world.ledger, partition_pk(log.partition), log)
    return world.ledger.problems + problems
