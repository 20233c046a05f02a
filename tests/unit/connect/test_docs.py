"""The pages of docs/connect: tables as the code says, examples that are valid, every plugin on a page."""

from __future__ import annotations

import json
import re

import pytest
from odradek.connect import plugins
from odradek.connect.validate import connector_class, validate

from tests.support.counted import at_least
from tools.connect_reference import FOLDER, MARK, filled

PAGES = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.md"))}


@pytest.mark.parametrize("name", PAGES)
def test_the_tables_of_a_page_are_those_of_the_code(name: str) -> None:
    assert filled(PAGES[name]) == PAGES[name], "run `make reference`"


def test_every_connector_transform_and_predicate_is_on_a_page() -> None:
    marks = [found for text in PAGES.values() for found in MARK.finditer(text) if found[2] != "settings"]
    marked = {(found[2], plugins.find(found[2], found[3]).name) for found in marks}  # type: ignore[arg-type]
    for category in ("connectors", "transforms", "predicates"):
        missing = {name for name in plugins.names(category) if (category, name.replace("$Key", "$Value")) not in marked}
        assert missing == set(), category


def test_every_connector_has_an_example_and_a_guarantee_on_its_page() -> None:
    for name in plugins.names("connectors"):
        [(page, text)] = [
            (page, text)
            for page, text in PAGES.items()
            for found in MARK.finditer(text)
            if found[2] == "connectors" and plugins.find("connectors", found[3]).name == name
        ]
        assert "**Guarantee**" in text, page
        examples = [json.loads(block).get("config", {}) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
        classes = {plugins.find("connectors", each["connector.class"]).name for each in examples if each}
        assert name in classes, f"{page} has no example of {name}"


def test_every_option_says_what_it_does() -> None:
    options = [
        (name, key)
        for category in plugins.PLUGINS
        for name in plugins.names(category)
        for key in plugins.find(category, name).load().config_def
    ]
    assert [f"{name}: {key.name}" for name, key in at_least(100, options) if not key.documentation] == []


def test_the_examples_are_valid() -> None:
    count = 0
    for name, text in PAGES.items():
        for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL):
            document = json.loads(block)
            if "config" in document:
                configs = {"name": document["name"], **document["config"]}
                found = validate(connector_class(configs), configs)
                assert {key: each.errors for key, each in found.items() if each.errors} == {}, name
                count += 1
    assert count >= len(plugins.PLUGINS["connectors"])
