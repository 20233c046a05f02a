"""The pages about deployment and the pipeline name every job that the stacks create."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.permissions import JOBS

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("page", ["DEPLOY.md", "PIPELINE.md"])
def test_the_page_names_every_job(page: str) -> None:
    text = (DOCS / page).read_text()
    assert [job for job in JOBS if f"`{job}`" not in text] == []


def test_deployment_gives_the_number_of_jobs() -> None:
    said = re.search(r"\| (\d+) Glue jobs", (DOCS / "DEPLOY.md").read_text())
    assert said is not None
    assert int(said[1]) == len(JOBS)
