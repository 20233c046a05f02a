"""`make audit`: the locked dependencies against the public list of known vulnerabilities, by pip-audit.

It needs a network (the package index for pip-audit itself, and its vulnerability service), so `make check`, which needs
none, leaves it out. Exit code 0: none is known, 1: some are, 2: it could not ask about all, which is no clean answer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_PIP_AUDIT = "pip-audit==2.9.0"
_EXPORT = ("export", "--frozen", "--all-extras", "--all-groups", "--no-emit-workspace", "--no-hashes", "--quiet")


def report(dependencies: list[dict[str, Any]]) -> tuple[str, int]:
    """Return a report on pip-audit's JSON, and the exit code."""
    lines = [
        f"{dependency['name']} {dependency['version']}: {vulnerability['id']}, fixed in "
        f"{', '.join(vulnerability['fix_versions']) or 'no release'}"
        for dependency in dependencies
        for vulnerability in dependency.get("vulns", ())
    ]
    unasked = [dependency["name"] for dependency in dependencies if "skip_reason" in dependency]
    if unasked:
        lines.append(f"not audited, the service does not know them: {len(unasked)} of {len(dependencies)}")
    if not lines:
        lines.append(f"{len(dependencies)} dependencies, no known vulnerability")
    is_vulnerable = any(dependency.get("vulns") for dependency in dependencies)
    return "\n".join(lines), 1 if is_vulnerable else 2 if unasked else 0


def main() -> int:
    uv = str(Path(sys.executable).with_name("uv"))
    locked = subprocess.run([uv, *_EXPORT], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(locked)
        command = [uv, "tool", "run", _PIP_AUDIT, "--disable-pip", "--no-deps", "--progress-spinner", "off"]
        command += ["--format", "json", "-r", str(requirements)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        text, code = report(json.loads(run.stdout)["dependencies"])
    except (ValueError, KeyError):
        said = run.stderr.strip().splitlines()[-1:] or ["no answer"]
        text, code = f"audit: the package index or the vulnerability service cannot be asked: {said[0]}", 2
    print(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
