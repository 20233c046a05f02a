"""docs/http is what the routes of the code say."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("lark")

from odradek.registry.api import RegistryApi

from tools.openapi import APIS, FOLDER, PAGE, Api, document, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "make reference"


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_a_document_is_up_to_date_and_whole(api: Api) -> None:
    found = document(api)
    assert json.loads((FOLDER / f"{api.name}.json").read_text(encoding="utf-8")) == found, "make reference"
    operations = [each for path in found["paths"].values() for each in path.values()]
    assert len(operations) == len(api.operations()) >= 7
    assert len({each["operationId"] for each in operations}) == len(operations)
    for path, methods in found["paths"].items():
        names = re.findall(r"\{(\w+)\}", path)
        assert re.fullmatch(r"(/[\w.{}-]*)+", path), path
        for each in methods.values():
            assert [parameter["name"] for parameter in each.get("parameters", ())] == names


def test_every_path_of_the_registry_is_a_route() -> None:
    """The template of a path, with values for its names, is what the pattern takes."""
    routes = RegistryApi(None, None, "").routes  # type: ignore[arg-type]
    [registry] = [each for each in APIS if each.name == "registry"]
    for method, path, _ in registry.operations():
        example = re.sub(r"\{\w+\}", "x", path)
        assert any(method == known and re.fullmatch(pattern, example) for known, pattern in routes), path
