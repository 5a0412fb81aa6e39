"""What fails of a check of the conformance suite on the reference, faults planted or not."""

from __future__ import annotations

import calor
from calor_conformance import outcomes, suite
from calor_conformance.checks.base import Place


def failures(name: str, seeds: int = 1) -> list[str]:
    """Return the detail of the first seed with which a check does not pass; nothing if all do."""
    device = calor.device("numpy")
    check = suite.checks()[name]
    for seed in range(seeds):
        found = outcomes.run(check, Place(device, device, seed))
        if found.outcome != "passed":
            return [found.detail]
    return []
