"""Several clusters in one console: paths of their own, links that stay, and what happens while one is away."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import odradek
import pytest
from odradek.cli.service import console as command
from odradek.client.profiles import Profile, save_profile
from odradek.console.app import console_app
from odradek.console.clusters import OtherCluster
from odradek.console.rendering import prefixed
from odradek.console.settings import ConsoleSettings
from odradek.errors import KafkaError
from odradek.local.threaded import ThreadedService
from odradek.operations.cluster import Cluster
from odradek.operations.storage import StorePlace

from tests.integration.console.conftest import ORIGIN, QUICK, Browser
from tests.integration.console.test_pages import PAGES

NOWHERE = "http://127.0.0.1:9"


@asynccontextmanager
async def two(service: ThreadedService, other: ThreadedService) -> AsyncIterator[Browser]:
    """Open a console of one service that also shows another, and a third that cannot be reached."""
    store_place = StorePlace.of_folder(other.data_dir)
    others = [
        OtherCluster("away", NOWHERE, lambda: Cluster({**service.client_config, "bootstrap_servers": NOWHERE})),
        OtherCluster("prod", other.bootstrap_servers, lambda: Cluster(other.client_config, store_place)),
    ]
    cluster = Cluster(service.client_config)
    app = console_app(cluster, ConsoleSettings(**QUICK), others=others)
    through = httpx.ASGITransport(app=app, client=("127.0.0.1", 50_000), raise_app_exceptions=True)
    async with cluster, httpx.AsyncClient(transport=through, base_url=ORIGIN, timeout=60) as client:
        browser = Browser(app, client)
        await browser.sign_in()
        yield browser
        await app.state.console.disconnect()


@pytest.fixture
async def browser(service: ThreadedService) -> AsyncIterator[Browser]:
    """The other cluster is the service that was filled; the first one has a single topic."""
    with odradek.local() as small:
        with odradek.Admin(**small.client_config) as admin:
            admin.create_topics([odradek.NewTopic("at-home", 1)])
        async with two(small, service) as signed_in:
            yield signed_in


async def test_each_cluster_has_its_own_pages(browser: Browser) -> None:
    home, prod = await browser.get("/topics"), await browser.get("/clusters/prod/topics")
    assert ("at-home" in home, "payments" in home) == (True, False)
    assert ("at-home" in prod, "payments" in prod) == (False, True)
    assert "at-home" in await browser.get("/clusters/"), "the list leads back to the first one"
    await browser.get("/clusters/unknown/topics", 404)


SHOWN = [path for path in PAGES if not path.startswith(("/sql/words", "/sql/export", "/jobs"))]


@pytest.mark.parametrize("path", SHOWN)
async def test_no_link_of_a_page_leads_to_another_cluster(browser: Browser, path: str) -> None:
    html = await browser.get(f"/clusters/prod{path}")
    links = re.findall(r'\s(?:href|action|formaction|data-(?!copy|confirm|word\b)[a-z]+)="(/[^"]*)"', html)
    elsewhere = [link for link in links if not link.startswith(("/clusters/prod/", "/static/"))]
    assert set(elsewhere) == {"/clusters/", "/clusters/away/"}, "the list of clusters"


async def test_a_change_is_made_where_its_page_is_and_leads_back_there(browser: Browser) -> None:
    response = await browser.post("/clusters/prod/topics", name="made-in-prod")
    assert response.headers["location"] == "/clusters/prod/topics/made-in-prod"
    assert "Topic made-in-prod was created" in await browser.get(response.headers["location"])
    assert "made-in-prod" not in await browser.get("/topics")
    assert "made-in-prod" in await browser.get("/clusters/prod/audit")
    assert "made-in-prod" not in await browser.get("/audit")
    response = await browser.post("/clusters/prod/topics/made-in-prod/delete", confirm="made-in-prod")
    assert response.headers["location"] == "/clusters/prod/topics"


async def test_a_cluster_that_is_away_is_a_problem_of_its_pages_alone(browser: Browser) -> None:
    for _ in range(2):  # the second attempt has a client of its own
        html = await browser.get("/clusters/away/topics", 502)
        assert NOWHERE in html
        assert 'href="/clusters/away/groups"' in html, "within the frame"
    assert "at-home" in await browser.get("/topics")
    response = await browser.post("/clusters/away/topics", name="wished")
    assert (response.status_code, NOWHERE in response.text) == (502, True)
    assert (await browser.post("/clusters/away/sign-out")).status_code == 303


async def test_the_door_is_the_same_for_every_cluster(browser: Browser) -> None:
    browser.client.cookies.clear()
    assert (await browser.client.get("/clusters/prod/topics")).status_code == 401
    assert (await browser.client.post("/clusters/prod/topics", headers={"Origin": ORIGIN})).status_code == 401
    assert browser.state._named == {}, "no cluster is connected for somebody without a session"


def test_values_that_look_like_paths_stay_as_they_are() -> None:
    """A group may have the id "/odd": it is typed to confirm, and copied, as it is."""
    html = '<a href="/topics"><a href="/static/x.css"><input data-confirm="/odd" data-copy="/odd" value="/odd">'
    assert prefixed(html, "/clusters/prod") == html.replace('"/topics"', '"/clusters/prod/topics"')


def test_the_clusters_are_those_of_the_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    monkeypatch.setattr("odradek.client.profiles.FILE", file)
    assert command._other_clusters("http://127.0.0.1:9292", tmp_path) == []
    for name in ("prod", "dev", "a b"):
        save_profile(Profile(name, f"https://{name}.example", "eu-central-1"), file)
    document = json.loads(file.read_text())
    document["profiles"]["broken"] = {"region": "eu-central-1"}
    file.write_text(json.dumps(document))

    others = command._other_clusters("https://dev.example", tmp_path)

    assert [(other.name, other.address) for other in others] == [("prod", "https://prod.example")]
    assert others[0].make().address == "https://prod.example"
    assert "'broken' is damaged" in capsys.readouterr().err


async def test_a_damaged_file_of_profiles_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.json"
    file.write_text("{")
    monkeypatch.setattr("odradek.client.profiles.FILE", file)
    with pytest.raises(KafkaError, match="cannot be read"):
        command._other_clusters("http://127.0.0.1:9292", tmp_path)
