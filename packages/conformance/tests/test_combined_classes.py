"""Checks of chains, dtypes of pairs, masks, counts, grids, shared weights and forms of transforms.

Each passes on the reference, and fails where one rule is broken that it is about.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

import calor
from calor.ops import movement as m
from calor.transforms import simplify, simplify_rules
from calor.transforms.simplify_draft import Step
from calor_conformance import outcomes, suite
from calor_conformance.checks.base import Place

MODULES = (
    "jit/chains-of-moves", "jit/chains-of-casts", "jit/chains-of-bits",
    "jit-gradient/chains-of-moves",
)  # fmt: skip


def failures(name: str, seeds: int = 1) -> list[str]:
    device = calor.device("numpy")
    check = suite.checks()[name]
    for seed in range(seeds):
        found = outcomes.run(check, Place(device, device, seed))
        if found.outcome != "passed":
            return [found.detail]
    return []


@pytest.mark.parametrize("name", MODULES)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 3) == []


def rule(monkeypatch: pytest.MonkeyPatch, name: str, made: Any) -> None:
    """Replace the rules by which nodes of an op are simplified."""
    rules = MappingProxyType({**simplify_rules.RULES, name: (made,)})
    monkeypatch.setattr(simplify_rules, "RULES", rules)
    monkeypatch.setattr(simplify, "RULES", rules)


def other_order(draft: Any, step: Any, out: Any) -> Any:
    """Join two orders of axes the wrong way round, which fits for those of two axes."""
    axes = step.attributes["axes"]
    inner = draft.made_by(step.inputs[0], m.permute)
    if inner is None:
        return None
    joined = tuple(axes[a] for a in inner.attributes["axes"])
    shape = draft.specs[inner.inputs[0]].shape
    if tuple(shape[a] for a in joined) != out.shape:
        return None
    return Step(m.permute, inner.inputs, {"axes": joined})


def one_fill(draft: Any, step: Any, out: Any) -> Any:
    """Join two pads whatever they fill with."""
    inner = draft.made_by(step.inputs[0], m.pad)
    if inner is None or any(step.attributes["interior"]):
        return None
    sums = {s: tuple(a + b for a, b in zip(step.attributes[s], inner.attributes[s], strict=True))
            for s in ("low", "high")}  # fmt: skip
    kept = {**sums, "interior": inner.attributes["interior"]}
    return Step(m.pad, (inner.inputs[0], step.inputs[1]), kept)


def any_flips(draft: Any, step: Any, out: Any) -> Any:
    """Take a flip of a flip for none, whatever their axes are."""
    inner = draft.made_by(step.inputs[0], m.flip)
    return None if inner is None else simplify_rules._same(draft, inner.inputs[0], out)


def backward_too(draft: Any, step: Any, out: Any) -> Any:
    return simplify_rules._same(draft, step.inputs[0], out)


def through_narrow(draft: Any, step: Any, out: Any) -> Any:
    """Leave out a conversion there and back, whatever lies between."""
    inner = draft.made_by(step.inputs[0], simplify_rules.e.cast)
    return None if inner is None else simplify_rules._same(draft, inner.inputs[0], out)


def of_values(draft: Any, step: Any, out: Any) -> Any:
    """Convert the numbers of what was computed on bits, instead of viewing the bits."""
    made = draft.made_by(step.inputs[0], simplify_rules.e.bit_xor)
    return made and Step(simplify_rules.e.cast, step.inputs, {"dtype": out.dtype})


@pytest.mark.parametrize(
    ("op", "wrong", "name"),
    [
        ("permute", other_order, "jit/chains-of-moves"), ("pad", one_fill, "jit/chains-of-moves"),
        ("flip", any_flips, "jit/chains-of-moves"), ("slice", backward_too, "jit/chains-of-moves"),
        ("cast", through_narrow, "jit/chains-of-casts"),
        ("bitcast", of_values, "jit/chains-of-bits"),
    ],
)  # fmt: skip
def test_a_wrong_rewrite_is_found(
    op: str, wrong: Callable[..., Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule(monkeypatch, op, wrong)
    assert failures(name, 2)
