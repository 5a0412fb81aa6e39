"""Programs whose nodes are scattered among members at random: the cut changes no number.

By cost, small programs stay on one member, so few of the suite's programs are ever cut. The members
are the reference twice, and every check of the suite holds for them to the bit.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest

import calor
from calor.backends.protocol import FULL
from calor_conformance import outcomes, suite
from calor_conformance.checks.base import Place
from calor_router import backend, options, placement

from .toys import routed, toy

# State and its updates, control flow, gradients, results of any form, and ops in larger graphs.
PATTERNS = (
    "state/*state*", "state/outputs*", "state/tied*", "graphs/*outputs*", "graphs/unused*",
    "history/decoding*", "history/small*", "history/states*", "history/updates*",
    "transforms/*-backward-jitted/float32", "transforms/scan*", "transforms/while*",
)  # fmt: skip


def scatter(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Let each node be on any member that takes it, in any form of its graph."""
    drawn = random.Random(seed)

    def cheapest(problem: placement.Problem, count: int) -> tuple[int, ...]:
        return tuple(drawn.choice(row) for row in problem.allowed)

    def forms(members: Sequence[Any], graph: Any) -> list[options.Option]:
        found = placement.placements(members, graph)
        return [options.Option(*drawn.choice(found))]

    monkeypatch.setattr(placement, "_cheapest", cheapest)
    monkeypatch.setattr(options, "_options", forms)


def reference(name: str) -> Any:
    """Return a member with the reference's ops; what it downloads is a view of its memory."""
    device: Any = toy(name)
    known = device.backend._info
    device.backend._info = replace(known, features={**known.features, "host_views": FULL})
    return device


@pytest.mark.parametrize("limits", [(), (1 << 20, None)], ids=["free", "limited"])
def test_the_suite_holds_wherever_nodes_run(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int | None, ...]
) -> None:
    scatter(monkeypatch, 7)
    monkeypatch.setattr(backend, "measure", lambda members, limits: None)
    device = routed(reference("first"), reference("second"), limits=limits)
    checks = suite.checks()
    names = [n for n in checks if any(fnmatchcase(n, pattern) for pattern in PATTERNS)]
    assert len(names) > 40
    with calor.device(device):
        for name in names:
            result = outcomes.run(checks[name], Place(device, device, 0))
            assert result.outcome != "failed", f"{name}: {result.detail}"
    # Programs were cut, and on both members.
    assert device.transfers > 100
    assert device.fallbacks > 100
