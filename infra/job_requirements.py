"""What a Glue job installs when it starts, read from the extras of the wheel.

Apart from the constructs, so that a test may ask without starting CDK.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

_SDK_PROJECT = Path(__file__).resolve().parent.parent / "sdk" / "pyproject.toml"
# In the extras, but part of Glue already: installing them over Glue's own would break it.
PROVIDED_BY_GLUE = ("pyspark", "pandas", "numpy", "pyarrow", "boto3")


def job_requirements(sdk_project: Path = _SDK_PROJECT) -> list[str]:
    """What the jobs' extras ask for (`spark` too) beyond the wheel's dependencies and what Glue brings."""
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

    # Glue splits the list at commas, so of a range only the first bound can be told.
    wanted = (
        requirement.split(",")[0] for extra in ("aws", "tables", "avro", "protobuf") for requirement in expand(extra)
    )
    return [requirement for requirement in wanted if not requirement.startswith(PROVIDED_BY_GLUE)]
