"""Conditional writes: append only if nobody else has appended since one read the log. Optimistic locking by offset."""

from __future__ import annotations

import odradek


def main(**connection: str) -> None:
    with odradek.Admin(**connection) as admin:
        admin.create_topics([odradek.NewTopic("leases")])

    with odradek.Producer(**connection) as first, odradek.Producer(**connection) as second:
        # Both have seen an empty log, so both expect to write offset 0.
        won = first.send("leases", b"held by first", partition=0, expected_offset=0).result(timeout=30)
        print(f"first wrote offset {won.offset}")
        try:
            second.send("leases", b"held by second", partition=0, expected_offset=0).result(timeout=30)
        except odradek.OffsetConflict as conflict:
            print(f"second lost: expected offset {conflict.expected_offset}, the log ends at {conflict.actual_offset}")
            retried = second.send("leases", b"queued", partition=0, expected_offset=conflict.actual_offset)
            print(f"second wrote offset {retried.result(timeout=30).offset}")


if __name__ == "__main__":
    with odradek.local() as service:
        main(**service.client_config)
