"""Fill the figures about mutants in docs/CORRECTNESS.md from the list and the kept results. `make reference`.

tests/unit/test_mutants.py compares the page. The figures are those of the last measurement of each mutant, so that a
change of the code alone does not make the page wrong; `make mutants ARGS="--report"` counts only what was measured
with the present code.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from pathlib import Path

from tests.mutants import rules
from tests.mutants.listed import MUTANTS
from tests.mutants.verdicts import RESULTS, verdict

PAGE = Path(__file__).parents[2] / "docs" / "CORRECTNESS.md"
_MARK = re.compile(r"(<!-- mutants (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_FIRST = 60  # seeds
_WIDTH = 120


def filled(text: str) -> str:
    """Return the page with its figures made anew."""
    sections = {"listed": listed(), "made": made()}
    return _MARK.sub(lambda found: f"{found[1]}{textwrap.fill(sections[found[2]], _WIDTH)}\n{found[3]}", text)


def listed() -> str:
    """The figures of the mutants that were written by hand."""
    kept = json.loads(RESULTS.read_text())["mutants"]
    by_hand = [each for each in MUTANTS.values() if not each.made_by]
    counted = [each for each in by_hand if not each.equivalent]
    noticed = [kept[each.name]["after"] for each in counted if kept.get(each.name, {}).get("found") is not None]
    missed = [len(kept[each.name]["tried"]) for each in counted if kept.get(each.name, {}).get("tried")]
    early = sum(after <= _FIRST for after in noticed)
    few = len(counted) - len(noticed) - sum(tried >= _FIRST for tried in missed)
    return (
        f"The list has {len(by_hand)} mutants. {len(by_hand) - len(counted)} are equivalent, with the reason; for each "
        f"of the others it names a test that fails with it. The simulation alone noticed {len(noticed)} of these "
        f"{len(counted)} at their last measurement ({len(noticed) / len(counted):.0%}; the goal is 90% by 500 seeds): "
        f"{early} by their first {_FIRST} seeds, and {len(noticed) - early} more by up to {max(noticed)}. "
        f"{len(counted) - len(noticed) - few} were missed by {_FIRST} seeds or more"
        + (f", and {few} have had fewer since their code last changed." if few else ".")
    )


def made() -> str:
    """The figures of the mutants that were made by rule."""
    counts = Counter(verdict(each) for each in rules.read_made())
    counted = counts.total() - counts["equivalent"]
    left = ", ".join(f"{counts[name]} {text}" for name, text in _LEFT.items() if counts[name])
    return (
        f"Of the {counts.total()}, {counts['equivalent']} are equivalent, with the reason; tests notice "
        f"{counts['noticed']} of the other {counted} ({counts['noticed'] / counted:.0%}; the goal is 90%)"
        + (f"; {left}." if left else ".")
    )


_LEFT = {"survived": "survive", "not tried": "have not been tried"}


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"written: {PAGE}")


if __name__ == "__main__":
    main()
