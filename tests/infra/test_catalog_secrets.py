"""Access to keys of users and secrets of triggers, which the catalog has beside items that all may read."""

from __future__ import annotations

from odradek.format.item_keys import LOGINS_PK, TRIGGERS_PK, USERS_PK
from odradek.functions.environment import MAINTENANCE, TRIGGER_DISPATCHER, TRIGGERS

from infra.permissions import PERMISSIONS


def test_secrets_of_the_catalog_are_for_those_who_need_them() -> None:
    """Keys of users are for administration and logins, secrets of triggers for what calls or wakes triggers."""

    def readers(key: str) -> set[str]:
        return {
            name
            for name, row in PERMISSIONS.items()
            for grant in row.tables
            if grant.table == "catalog"
            and (not grant.partition_keys or key in grant.partition_keys)
            and set(grant.actions) & {"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query"}
        }

    assert readers(USERS_PK) == readers(LOGINS_PK) == {"admin", "gateway"}
    assert readers(TRIGGERS_PK) == {MAINTENANCE, TRIGGERS, TRIGGER_DISPATCHER}
    unbound = [(name, grant) for name, row in PERMISSIONS.items() for grant in row.tables
               if grant.table == "catalog" and not grant.partition_keys]  # fmt: skip
    assert unbound == []
