"""Lists: what their columns say, how they are sorted, and what is done to several topics at a time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import odradek
import pytest
from odradek.console.pages import groups as pages
from odradek.errors import ErrorCode, KafkaError
from odradek.local.threaded import ThreadedService
from odradek.model.acl import AclOperation
from odradek.model.topic_partition import TopicPartition
from odradek.operations.groups import GroupRow, describe_rows, list_groups
from odradek.operations.topics import configs_of

from tests.integration.console.conftest import ORIGIN, Browser, as_principal, browsing
from tests.support.console import acl


@pytest.fixture(scope="module")
def log() -> Iterator[ThreadedService]:
    """Groups alpha, beta and gamma with lags 0, 30 and 5, over 1, 2 and 1 topics; an internal topic."""
    with odradek.local() as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics(
                [
                    odradek.NewTopic("left", 1, configs={"retention.ms": "3600000"}),
                    odradek.NewTopic("right", 1, configs={"cleanup.policy": "compact"}),
                    odradek.NewTopic("_schemas", 1),
                ]
            )
            with odradek.Producer(**service.client_config) as producer:
                for number in range(40):
                    producer.send("left" if number < 20 else "right", b"value", b"%d" % number)
                producer.flush()
            left, right = TopicPartition("left", 0), TopicPartition("right", 0)
            admin.alter_consumer_group_offsets("alpha", {left: 20})
            admin.alter_consumer_group_offsets("beta", {left: 5, right: 5})
            admin.alter_consumer_group_offsets("gamma", {right: 15})
        yield service


@pytest.fixture
async def browser(log: ThreadedService) -> AsyncIterator[Browser]:
    async with browsing(log.client_config, data_dir=log.data_dir) as signed_in:
        yield signed_in


def rows(html: str) -> list[list[str]]:
    """Return the texts of the cells of the first table."""
    body = html.split("<tbody>")[1].split("</tbody>")[0]
    return [
        [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)]
        for row in re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL)
    ]


async def test_the_groups_list_has_members_topics_and_lag(browser: Browser) -> None:
    assert rows(await browser.get("/groups")) == [
        ["alpha", "classic", "Empty", "0", "1", "0"],
        ["beta", "classic", "Empty", "0", "2", "30"],
        ["gamma", "classic", "Empty", "0", "1", "5"],
    ]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("lag&desc=1", ["beta", "gamma", "alpha"]),
        ("lag", ["alpha", "gamma", "beta"]),
        ("topics&desc=1", ["beta", "gamma", "alpha"]),
        ("group&desc=1", ["gamma", "beta", "alpha"]),
        ("state", ["alpha", "beta", "gamma"]),
        ("type", ["alpha", "beta", "gamma"]),
        ("members", ["alpha", "beta", "gamma"]),
    ],
)
async def test_groups_are_sorted_by_any_column(browser: Browser, sort: str, order: list[str]) -> None:
    assert [row[0] for row in rows(await browser.get(f"/groups?sort={sort}"))] == order


async def test_a_sort_that_would_read_too_many_groups_says_so(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_ALL_AT_ONCE", 2)
    html = await browser.get("/groups?sort=lag&desc=1")
    assert "filter them to 2 first" in html
    assert [row[0] for row in rows(await browser.get("/groups?sort=lag&desc=1&filter=a&type=classic"))] == [
        "gamma", "beta", "alpha",
    ], "by name, as there are too many still"  # fmt: skip
    assert [row[0] for row in rows(await browser.get("/groups?sort=lag&filter=mma"))] == ["gamma"]


async def test_a_list_of_groups_asks_for_all_ends_and_descriptions_at_once(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = browser.state.cluster.admin
    requests: list[str] = []

    def counted(name: str) -> None:
        call = getattr(admin, name)

        async def count(*arguments: object) -> object:
            requests.append(name)
            return await call(*arguments)

        monkeypatch.setattr(admin, name, count)

    for name in ("list_offsets", "describe_consumer_groups", "list_consumer_group_offsets"):
        counted(name)
    rows_found = await describe_rows(admin, await list_groups(admin))
    assert [(row.group, row.topics) for row in rows_found] == [
        ("alpha", ("left",)),
        ("beta", ("left", "right")),
        ("gamma", ("right",)),
    ]
    assert Counter(requests) == {
        "list_offsets": 1, "describe_consumer_groups": 1, "list_consumer_group_offsets": 3
    }  # fmt: skip


async def test_a_group_that_goes_takes_no_other_from_the_list(browser: Browser) -> None:
    listed = [*await list_groups(browser.state.cluster.admin), GroupRow("gone", "Empty", "consumer")]
    rows_found = await describe_rows(browser.state.cluster.admin, listed)
    assert [row.group for row in rows_found] == ["alpha", "beta", "gamma"]


async def test_a_deleted_topic_takes_no_lag_of_other_topics_away() -> None:
    with odradek.local() as service, odradek.Admin(**service.client_config) as admin:
        admin.create_topics([odradek.NewTopic("stays", 1), odradek.NewTopic("goes", 1)])
        admin.alter_consumer_group_offsets("g", {TopicPartition("stays", 0): 0, TopicPartition("goes", 0): 0})
        with odradek.Producer(**service.client_config) as producer:
            producer.send("stays", b"value").result(30)
        async with browsing(service.client_config) as browser:
            admin.delete_topics(["goes"])
            [row] = rows(await browser.get("/groups"))
    assert row[-1] == "1"


async def test_the_topics_list_has_retention_and_cleanup_policy(browser: Browser) -> None:
    columns_by_topic = {row[1]: row[5:7] for row in rows(await browser.get("/topics"))}
    assert columns_by_topic == {"left": ["delete", "1 h"], "right": ["compact", "\u2013"]}


@pytest.mark.parametrize(
    ("sort", "order"),
    [("retention", ["left", "right"]), ("retention&desc=1", ["right", "left"]), ("cleanup&desc=1", ["left", "right"])],
)
async def test_topics_are_sorted_by_their_configuration(browser: Browser, sort: str, order: list[str]) -> None:
    assert [row[1] for row in rows(await browser.get(f"/topics?sort={sort}"))] == order


async def test_internal_topics_are_shown_on_demand(browser: Browser) -> None:
    html = await browser.get("/topics")
    assert ">_schemas</a>" not in html
    assert "1 internal topic is not shown" in html
    shown = await browser.get("/topics?internal=1")
    assert ">_schemas</a>" in shown
    assert "not shown" not in shown


async def test_configurations_that_may_not_be_read_leave_the_others() -> None:
    with odradek.local() as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("open", 1), odradek.NewTopic("closed", 1)])
            admin.create_acls([acl("User:ada", "open", AclOperation.DESCRIBE_CONFIGS)])
        async with browsing(as_principal(service, "User:ada"), jobs=False) as browser:
            with pytest.raises(KafkaError) as refused:
                await browser.state.cluster.admin.describe_configs(["open", "closed"])
            configs = await configs_of(browser.state.cluster.admin, ["open", "closed"], ["cleanup.policy"])
    assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert configs == {"open": {"cleanup.policy": "delete"}}


async def test_a_missing_topic_is_created_from_its_page(browser: Browser) -> None:
    html = await browser.get("/topics/wished/records", 404)
    assert "There is no topic" in html
    assert 'name="name" value="wished"' in html
    assert "Topic wished was created" in await browser.done("/topics", name="wished")
    await browser.done("/topics/wished/delete", confirm="wished")


async def test_another_missing_thing_offers_no_topic(browser: Browser) -> None:
    assert "Create it" not in await browser.get("/topics/left/records?partition=7", 404)
    assert "Create it" not in await browser.get("/topics/no%20name", 400)


async def test_a_read_only_console_offers_no_topic(log: ThreadedService) -> None:
    async with browsing(log.client_config, read_only=True) as browser:
        html = await browser.get("/topics/wished", 404)
    assert "There is no topic" in html
    assert "Create it" not in html


# --- several topics at a time -----------------------------------------------------------------------------------------


@pytest.fixture
async def several() -> AsyncIterator[tuple[Browser, odradek.Admin]]:
    """Topics a, b and c with a record each; c is only compacted."""
    with odradek.local() as service, odradek.Admin(**service.client_config) as admin:
        compacted = {"cleanup.policy": "compact"}
        admin.create_topics(
            [odradek.NewTopic("a", 1), odradek.NewTopic("b", 2), odradek.NewTopic("c", 1, configs=compacted)]
        )
        with odradek.Producer(**service.client_config) as producer:
            for name in "abc":
                producer.send(name, b"value", b"key", partition=0).result(30)
        async with browsing(service.client_config) as browser:
            yield browser, admin


async def chosen(browser: Browser, do: str, *names: str) -> str:
    """Return the page that asks for a confirmation."""
    form = {"topic": list(names), "do": do, "csrf": await browser.csrf()}
    response = await browser.client.post("/topics-chosen", data=form, headers={"Origin": ORIGIN})
    assert response.status_code == 200
    return response.text


async def test_several_topics_are_deleted_after_one_confirmation(several: tuple[Browser, odradek.Admin]) -> None:
    browser, admin = several
    html = await chosen(browser, "delete", "a", "b")
    assert 'data-confirm="delete 2 topics"' in html
    assert 'name="topics" value="a b"' in html
    assert sorted(admin.list_topics()) == ["a", "b", "c"], "nothing is deleted before it is confirmed"

    html = await browser.done("/topics-chosen/change", topics="a b", do="delete", confirm="delete 2 topics")
    assert "2 of 2 topics were deleted: a, b." in html
    assert admin.list_topics() == ["c"]
    audit = [(line.action, line.what) for line in browser.state.audit.lines()]
    assert sorted(audit) == [("delete topic", "a"), ("delete topic", "b")]


async def test_several_topics_are_purged_and_a_compacted_one_says_why_not(
    several: tuple[Browser, odradek.Admin],
) -> None:
    browser, admin = several
    assert 'data-confirm="purge 3 topics"' in await chosen(browser, "purge", "a", "b", "c")
    response = await browser.post("/topics-chosen/change", topics="a b c", do="purge", confirm="purge 3 topics")
    assert response.status_code == 400, "that of POLICY_VIOLATION"
    assert "2 of 3 topics" in response.text
    assert "only compacted" in response.text
    begins = admin.list_offsets({TopicPartition(name, 0): "earliest" for name in "abc"})
    assert {tp.topic: at.offset for tp, at in begins.items()} == {"a": 1, "b": 1, "c": 0}
    outcomes = {line.what: line.outcome for line in browser.state.audit.lines()}
    assert outcomes == {"a": "done", "b": "done", "c": "POLICY_VIOLATION"}


async def test_topics_that_are_gone_are_left_out_of_the_question(several: tuple[Browser, odradek.Admin]) -> None:
    browser, admin = several
    admin.delete_topics(["a"])
    assert 'data-confirm="delete 1 topic"' in await chosen(browser, "delete", "a", "b")
    assert "None of these topics exists" in await chosen(browser, "delete", "a")
