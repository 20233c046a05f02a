"""The packages that a Glue job installs when it starts, from the extras of the wheel.

This module is separate from the constructs, so that a test can import it without starting CDK.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

_SDK_PROJECT = Path(__file__).resolve().parent.parent / "sdk" / "pyproject.toml"
# In the extras, but part of Glue: installing them over Glue's versions would break it.
PROVIDED_BY_GLUE = ("pyspark", "pandas", "numpy", "pyarrow", "boto3")


def job_requirements(sdk_project: Path = _SDK_PROJECT) -> list[str]:
    """Return the requirements of the jobs' extras (`spark` too), less the wheel's dependencies and Glue's packages."""
    extras: dict[str, list[str]] = tomllib.loads(sdk_project.read_text())["project"]["optional-dependencies"]

    def expand(extra: str) -> list[str]:
        found: list[str] = []
        for requirement in extras[extra]:
            if requirement.startswith("odradek["):
                for inner in requirement.removeprefix("odradek[").rstrip("]").split(","):
                    found += expand(inner)
            else:
                found.append(requirement)
        return found

    # Glue splits the list at commas, so only the first bound of a range can be passed.
    wanted = (
        requirement.split(",")[0] for extra in ("aws", "tables", "avro", "protobuf") for requirement in expand(extra)
    )
    return [requirement for requirement in wanted if not requirement.startswith(PROVIDED_BY_GLUE)]
