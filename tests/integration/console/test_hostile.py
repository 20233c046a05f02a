"""Names, keys, values and headers that are markup or script: they are shown, never run. ACLs decide what is shown."""

from __future__ import annotations

import html as markup
import json
from html.parser import HTMLParser

import odradek
import pytest
from odradek.local.threaded import ThreadedService
from odradek.model.acl import AclOperation

from tests.integration.console.conftest import as_principal, browsing
from tests.support.console import HOSTILE, acl

SHOWN = [
    "/topics/things/records",
    "/topics/things/records/0/3",
    "/topics/things/records?q=" + "%3Cscript%3E",
    "/topics/things/records/search?q=alert",
    "/topics/things/compare?a=0:0&b=0:3",
    "/topics/things/produce?again=0:3",
    "/topics?filter=" + "%3Cscript%3E",
    "/groups?filter=" + "%22%3E%3Cscript%3E",
    "/groups/detail?id=" + "%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
    "/schemas/detail?subject=" + "%3Cscript%3Ealert(1)%3C/script%3E",
    "/security?tab=explain&principal=%22%3E%3Cscript%3E&name=%3Cimg%20src=x%20onerror=alert(1)%3E",
    "/security?tab=explain&name=%3Cimg%20src=x%20onerror=alert(1)%3E&resource=%3Cb%3E",
    "/tables/detail?name=profiles",
    "/tables/detail?name=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
    "/tables/detail?name=profiles&by=key&key=%22%3E%3Cscript%3E",
    "/tables?filter=%22%3E%3Cscript%3E",
    "/triggers",
    "/triggers?filter=%22%3E%3Cscript%3E",
    "/triggers/detail?name=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
    "/triggers/detail?name=hostile",
    "/triggers/detail?name=hostile&tab=options",
    "/triggers/detail?name=new-orders&tab=reset&to=%3Cscript%3E&time=%22%3E%3Cscript%3E",
    "/jobs",
    "/jobs/runs?name=odradek-test-sql_job",
    "/jobs/runs?name=%3Cscript%3Ealert(1)%3C/script%3E",
    "/topics/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
    "/topics/things/records?where=%3Cscript%3E",
    "/costs?rate=%3Cscript%3E",
    "/groups",
    "/",
]


class Active(HTMLParser):
    """Collects what a browser would run or load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            address = (value or "").strip().lower()
            if name.startswith("on") or name == "style" or address.startswith("javascript:"):
                self.found.append(f"{tag} {name}={value}")
            if name in ("src", "srcset", "data") and not address.startswith("/static/"):
                self.found.append(f"{tag} {name}={value}")
        if tag in ("iframe", "object", "embed", "base", "b") or (tag == "script" and "src" not in dict(attrs)):
            self.found.append(tag)


def active_parts(text: str) -> list[str]:
    parser = Active()
    parser.feed(text)
    return parser.found


def test_the_parser_finds_what_it_should() -> None:
    assert len(active_parts(HOSTILE + '<a href="javascript:x">' + '<p style="x">')) == 5


@pytest.mark.parametrize("path", SHOWN)
async def test_what_looks_like_markup_is_text(service: ThreadedService, path: str) -> None:
    async with browsing(service.client_config) as browser:
        response = await browser.client.get(path)
    text = response.text
    if path.partition("?")[0].endswith("/search"):
        lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith('data: "')]
        assert lines
        text = "".join(map(json.loads, lines))

    assert active_parts(text) == []


async def test_hostile_text_is_shown_as_it_is(service: ThreadedService) -> None:
    async with browsing(service.client_config) as browser:
        page = await browser.get("/topics/things/records/0/3")
    assert markup.unescape(page).count(HOSTILE) >= 3, "key, value and header"


async def test_an_error_that_quotes_markup_quotes_it_as_text(service: ThreadedService) -> None:
    async with browsing(service.client_config) as browser:
        response = await browser.post("/topics", name=HOSTILE)
        assert response.status_code == 400
        assert "<script>alert" not in response.text
        await browser.post("/groups/delete", id=HOSTILE, confirm=HOSTILE)
        assert "<script>alert" not in await browser.get("/audit")


async def test_a_header_of_a_download_cannot_be_split(service: ThreadedService) -> None:
    async with browsing(service.client_config) as browser:
        response = await browser.client.get("/topics/orders%0d%0aSet-Cookie:%20a=b/records/download?as=csv")
    assert response.status_code in (400, 404)
    assert "set-cookie" not in response.headers


async def test_the_console_may_do_what_its_principal_may() -> None:
    with odradek.local() as service:
        with odradek.Admin(**service.client_config) as admin:
            admin.create_topics([odradek.NewTopic("orders", 1), odradek.NewTopic("secret", 1)])
            admin.create_acls([acl(), acl("User:root", "secret", AclOperation.ALL)])
        with odradek.Producer(**service.client_config) as producer:
            producer.send("orders", b"seen").result(30)
            producer.send("secret", b"the-hidden-value").result(30)
        async with browsing(as_principal(service, "User:ada")) as browser:
            topics = await browser.get("/topics")
            assert "orders" in topics
            assert "secret" not in topics
            assert "seen" in await browser.get("/topics/orders/records")
            for path in ("/topics/secret", "/topics/secret/records", "/topics/secret/records/0/0"):
                assert "the-hidden-value" not in await browser.get(path, 403)
            stream = await browser.client.get("/topics/secret/records/search?q=hid")
            assert "event: problem" in stream.text
            assert "the-hidden-value" not in stream.text.partition("event: problem")[0]

            refused = {
                "/topics": {"name": "new"},
                "/topics/orders/delete": {"confirm": "orders"},
                "/topics/orders/partitions": {"count": "2"},
                "/topics/orders/configuration": {"config__retention__ms": "1000"},
                "/topics/orders/delete-records": {"confirm": "orders", "partition": "all"},
                "/topics/orders/produce": {"value": "x"},
                "/security/acls": {"principal": "User:ada", "operation": "all", "resource": "topic", "name": "*"},
                "/security/users": {"user": "ada", "password": "x", "again": "x"},
                "/security/quotas": {"kind": "user", "name": "ada", "value": "1"},
            }
            for path, fields in refused.items():
                response = await browser.post(path, **fields)
                assert response.status_code in (403, 400), f"{path}: {response.status_code}"
            outcomes = {line.outcome for line in browser.state.audit.lines()}
            assert "done" not in outcomes, browser.state.audit.lines()
            assert "ACL" in await browser.get("/security") or "AUTHORIZATION" in await browser.get("/security")
        with odradek.Admin(**service.client_config) as admin:
            assert admin.list_topics() == ["orders", "secret"]
