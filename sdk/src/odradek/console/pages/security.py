"""Security: users of the Kafka port, ACLs, quotas, and who may do what with a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from odradek.client.admin.admin import Admin
from odradek.console.forms import Fields, query_of
from odradek.console.pages.base import action, page, render, state_of
from odradek.errors import ErrorCode, KafkaError
from odradek.model.quota import QuotaEntity
from odradek.operations.security import (
    OPERATIONS,
    QUOTAS,
    RESOURCES,
    AclRow,
    acl_row,
    exactly,
    explain,
    matrix,
    parse_acl,
    quota_rows,
)

TABS = ("acls", "users", "quotas", "explain")


@page
async def security(request: Request) -> Response:
    return await _show(request)


async def _show(request: Request, problem: str = "", form: Mapping[str, str] | None = None, tab: str = "") -> Response:
    state, query = state_of(request), query_of(request)
    shown = tab or query.choice("tab", TABS, "acls")
    admin = state.cluster.admin
    values: dict[str, Any] = {"users": [], "acls": [], "quotas": [], "verdicts": None, "matrix": None, "hidden": ""}
    try:
        if shown == "users":
            values["users"] = await admin.list_users()
        elif shown == "quotas":
            values["quotas"] = quota_rows(await admin.describe_client_quotas())
        else:
            found = sorted(await admin.describe_acls())
            wanted = query.text("filter").lower()
            rows = map(acl_row, found)
            values["acls"] = [each for each in rows if wanted in f"{each.principal} {each.name}".lower()]
            resource, name = query.choice("resource", tuple(RESOURCES), "topic"), query.text("name")
            if shown == "explain" and (name or resource == "cluster"):
                if query.text("principal"):
                    values["verdicts"] = explain(found, query.text("principal"), name, resource)
                else:
                    values["matrix"] = matrix(found, await _users(admin), name, resource)
    except KafkaError as error:
        if error.is_retryable:
            raise
        values["hidden"] = error.message
    return render(
        request,
        "security.html",
        tab=shown,
        tabs=TABS,
        filter=query.text("filter"),
        principal=query.text("principal"),
        resource=query.choice("resource", tuple(RESOURCES), "topic"),
        name=query.text("name"),
        labels={"acls": "ACLs", "explain": "Who may what"},
        operations=OPERATIONS,
        resources=tuple(RESOURCES),
        quota_names=QUOTAS,
        problem=problem,
        form=form or {},
        **values,
    )


async def _users(admin: Admin) -> list[str]:
    """Return the users, none if the caller may not see them: the ACLs name principals, too."""
    try:
        return await admin.list_users()
    except KafkaError as error:
        if error.is_retryable:
            raise
        return []


def _again(tab: str) -> Any:
    async def again(request: Request, problem: str, form: Mapping[str, str]) -> Response:
        shown = {name: value for name, value in form.items() if name != "password"}
        return await _show(request, problem, shown, tab)

    return again


def _where(tab: str) -> str:
    return f"/security?tab={tab}"


def _acl_row(form: Fields) -> AclRow:
    return AclRow(
        form.text("principal"),
        form.text("host") or "*",
        form.choice("may", ("allow", "deny"), "allow"),
        form.text("operation"),
        form.text("resource"),
        form.text("name"),
        form.choice("pattern", ("literal", "prefixed"), "literal"),
    )


@action(_again("acls"))
async def create_acl(request: Request, form: Fields) -> tuple[str, str]:
    state, row = state_of(request), _acl_row(form)
    acl = parse_acl(row)
    with state.audit.noting("create ACL", _named(row)):
        await state.cluster.admin.create_acls([acl])
    return _where("acls"), f"{_named(row)}: from the first ACL on, what no ACL allows is denied."


@action(_again("acls"))
async def delete_acl(request: Request, form: Fields) -> tuple[str, str]:
    state, row = state_of(request), _acl_row(form)
    with state.audit.noting("delete ACL", _named(row)):
        await state.cluster.admin.delete_acls(exactly(parse_acl(row)))
    return _where("acls"), f"Deleted: {_named(row)}."


def _named(row: AclRow) -> str:
    name = f"{row.name}…" if row.pattern == "prefixed" else row.name
    return f"{row.may} {row.principal} to {row.operation} on {row.resource} {name}".strip()


@action(_again("users"))
async def create_user(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), form.text("user")
    if form.exactly("password") != form.exactly("again"):
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the two passwords differ")
    with state.audit.noting("create user", name):
        await state.cluster.admin.create_user(name, form.exactly("password"))
    return _where("users"), f"User {name} can log in to the Kafka port."


@action(_again("users"))
async def delete_user(request: Request, form: Fields) -> tuple[str, str]:
    state, name = state_of(request), form.text("user")
    with state.audit.noting("delete user", name):
        await state.cluster.admin.delete_user(name)
    return _where("users"), f"User {name} was deleted; existing connections stay open."


@action(_again("quotas"))
async def set_quota(request: Request, form: Fields) -> tuple[str, str]:
    """Set a quota; an empty value removes it. An empty name is the default of its kind, if the kind is chosen."""
    state = state_of(request)
    kind, name = form.choice("kind", ("user", "client-id", "ip"), "user"), form.text("name")
    quota = form.choice("quota", QUOTAS, QUOTAS[0])
    value = None if form.text("value") == "" else float(form.number("value", 0, 1, 2**53))
    entity = QuotaEntity(**{kind.replace("-", "_"): name})
    if any(part in form for part in QuotaEntity._fields):  # a row of the table, which may be of several
        entity = QuotaEntity(*(_optional(form, part) for part in QuotaEntity._fields))
    with state.audit.noting("set quota", f"{quota} of {kind} {name or next(filter(None, entity), 'default')}"):
        await state.cluster.admin.alter_client_quotas(entity, {quota: value})
    return _where("quotas"), "The quota was removed." if value is None else "The quota was set."


def _optional(form: Fields, name: str) -> str | None:
    return form.text(name) if name in form else None
