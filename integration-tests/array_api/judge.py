"""What a run of the suite says: which failures are listed with a reason, and which are not.

Requirements: every failure stands in ``xfails.txt`` with its reason, also one that the peer shares;
a listed test that passes is named, so that the list does not grow old (it is no failure, because
the suite draws its examples at random and may miss the one that fails).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PASSED = "passed"
FAILED = ("failed", "error")


class ListError(ValueError):
    """A line of the list of expected failures has no reason, or stands there twice."""


def read_list(text: str) -> dict[str, str]:
    """Return test to reason from lines ``test  # reason``; ListError for a line without one.

    Empty lines and lines that start with ``#`` are not read.
    """
    listed: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        test, mark, reason = line.partition("  # ")
        if not mark or not reason.strip():
            raise ListError(
                f"line {number} has no reason: {line!r}; write the test, two spaces, "
                f"a # and why it is expected to fail"
            )
        if test.strip() in listed:
            raise ListError(f"line {number} lists {test.strip()!r} a second time")
        listed[test.strip()] = reason.strip()
    return listed


@dataclass(slots=True)
class Verdict:
    """The comparison of one run with the list and, where it ran, with the peer."""

    counts: dict[str, int]
    # Failing tests with their reason, None where the list has none.
    failures: dict[str, str | None]
    # Failing tests, by whether the peer passes them; empty without a peer.
    only_here: list[str] = field(default_factory=list)
    # Listed tests that passed, and listed tests that the suite does not have.
    passed_though_listed: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def unlisted(self) -> list[str]:
        """The failures without a reason: what makes the run fail."""
        return [test for test, reason in self.failures.items() if reason is None]


def count(outcomes: Mapping[str, str]) -> dict[str, int]:
    """Return how many tests had each outcome, and all of them as ``total``."""
    counts: dict[str, int] = {"total": len(outcomes)}
    for outcome in sorted(outcomes.values()):
        counts[outcome] = counts.get(outcome, 0) + 1
    return counts


def judge(
    outcomes: Mapping[str, str], listed: Mapping[str, str], peer: Mapping[str, str] | None = None
) -> Verdict:
    """Compare test outcomes with the listed failures and a peer's outcomes."""
    failed = sorted(test for test, outcome in outcomes.items() if outcome in FAILED)
    return Verdict(
        counts=count(outcomes),
        failures={test: listed.get(test) for test in failed},
        only_here=[test for test in failed if peer is not None and peer.get(test) == PASSED],
        passed_though_listed=sorted(t for t in listed if outcomes.get(t) == PASSED),
        unknown=sorted(t for t in listed if t not in outcomes),
    )
