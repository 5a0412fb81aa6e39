"""Checks of chains, dtypes of pairs, masks, counts, grids, shared weights and forms of transforms.

Each passes on the reference, and fails where one rule is broken that it is about.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

import calor
from calor import dtypes
from calor.ops import movement as m
from calor.transforms import control_gradients, control_tangents, simplify, simplify_rules
from calor.transforms.simplify_draft import Step
from calor_conformance.checks import pairs_of_dtypes
from calor_nn import loading
from calor_nn import module as modules_of_nn
from reference_failures import failures

MODULES = (
    "jit/chains-of-moves", "jit/chains-of-casts", "jit/chains-of-bits",
    "jit-gradient/chains-of-moves", "transforms/arguments-as-numbers",
    "transforms/arguments-as-one-object-twice", "transforms/arguments-as-branches",
    "vmap/arguments-as-axes", "functions/masks-beside-axes", "functions/pairs-of-dtypes/bfloat16",
    "functions/numbers-beside-dtypes/float16", "functions/counts-left-nanvar",
    "functions/counts-left-nanquantile", "functions/grids-of-differences",
    "functions/grids-of-histograms", "functions/grids-of-areas", "state/states-of-some-names",
)  # fmt: skip


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


def test_axes_from_the_end_of_the_member_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["calor.transforms.vmap"]
    right = module._index

    def index(axis: int, rank: int, what: str) -> int:
        return right(axis - 1 if -rank < axis < 0 and "output" in what else axis, rank, what)

    monkeypatch.setattr(module, "_index", index)
    assert failures("vmap/arguments-as-axes")


def test_integers_before_floats_that_move_gradients_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = control_gradients.inexact

    def first_alone(values: Any) -> list[int]:
        places = right(values)
        return [p for n, p in enumerate(places) if p == n or n == 0]

    monkeypatch.setattr(control_gradients, "inexact", first_alone)
    monkeypatch.setattr(control_tangents, "inexact", first_alone)
    assert failures("transforms/arguments-as-branches")


def test_numbers_without_tangents_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = calor.linearize

    def linearize(function: Any, *primals: Any, has_aux: bool = False) -> Any:
        value, push, *aux = right(function, *primals, has_aux=has_aux)
        if not has_aux:
            return value, push
        return (value, lambda *t: push(*(0.0 if isinstance(k, float) else k for k in t)), *aux)

    monkeypatch.setattr(calor, "linearize", linearize)
    assert failures("transforms/arguments-as-numbers")


@pytest.mark.parametrize("name", ["jacfwd", "jacrev", "grad"])
def test_one_object_for_two_arguments_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(calor, name)

    def wrong(function: Any, argnums: Any) -> Any:
        def call(*given: Any) -> Any:
            made = right(function, argnums)(*given)
            first = {id(given[k]): k for k in reversed(argnums)}
            return tuple(made[argnums.index(first[id(given[k])])] for k in argnums)

        return call

    monkeypatch.setattr(calor, name, wrong)
    assert failures("transforms/arguments-as-one-object-twice")


def test_halves_of_another_common_dtype_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dtypes._PROMOTED, (calor.bfloat16, calor.float16), calor.bfloat16)
    assert failures("functions/pairs-of-dtypes/bfloat16")


@pytest.mark.parametrize("place", [0, 1])
def test_a_number_that_is_cut_is_found(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    right = calor.multiply
    cut = (complex, float)[place]

    def wrong(a: Any, b: Any) -> Any:
        made = right(a, b)
        return made.astype(a.dtype) if isinstance(b, cut) else made

    monkeypatch.setitem(pairs_of_dtypes._WAYS, "multiply", (wrong, str))
    name = ("float16", "int32")[place]
    assert failures(f"functions/numbers-beside-dtypes/{name}")


def test_values_of_a_mask_in_another_layout_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = calor.Tensor.__setitem__

    def wrong(self: Any, key: Any, value: Any) -> None:
        square = getattr(value, "ndim", 0) > 1 and value.shape[0] == value.shape[1] > 1
        right(self, key, calor.swapaxes(value, 0, 1) if square else value)

    monkeypatch.setattr(calor.Tensor, "__setitem__", wrong)
    assert failures("functions/masks-beside-axes")


@pytest.mark.parametrize("above", [True, False])
def test_corrections_at_the_count_are_found(above: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    right = calor.nanvar

    def wrong(x: Any, *, correction: float = 0.0, **more: Any) -> Any:
        made = right(x, correction=correction, **more)
        left = calor.sum((~calor.isnan(x)).astype("int64"), **more)
        broken = left < correction if above else left == correction
        return calor.where(broken & calor.asarray(correction > 0), 0.0, made)

    monkeypatch.setattr(calor, "nanvar", wrong)
    assert failures("functions/counts-left-nanvar", 3)


def test_grids_of_other_axes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right, counted = calor.gradient, calor.histogramdd

    def wrong(x: Any, *spacing: Any, **more: Any) -> Any:
        steps = [s if isinstance(s, float) else None for s in spacing]
        first = next((s for s in steps if s is not None), None)
        return right(x, *(s if k is None else first for s, k in zip(spacing, steps, strict=True)),
                     **more)  # fmt: skip

    def of_the_first(x: Any, bins: Any, **more: Any) -> Any:
        ends = next((r for r in more["range"] if r is not None), None)
        more["range"] = [r if r is None else ends for r in more["range"]]
        return counted(x, bins, **more)

    monkeypatch.setattr(calor, "gradient", wrong)
    monkeypatch.setattr(calor, "histogramdd", of_the_first)
    assert failures("functions/grids-of-differences", 2)
    assert failures("functions/grids-of-histograms", 2)


def test_one_missing_name_of_a_tied_weight_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = loading.held_tensors

    def copies(module: Any) -> Any:
        # Each name has an object of its own, so that ties are forgotten.
        return [SimpleNamespace(path=h.path, tensor=h.tensor.detach(), is_transient=h.is_transient)
                for h in right(module)]  # fmt: skip

    monkeypatch.setattr(loading, "held_tensors", copies)
    assert failures("state/states-of-some-names")


def test_a_misfit_that_is_loaded_in_part_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = loading.load_into

    def load_into(module: Any, state: Any, *, strict: bool) -> Any:
        report = right(module, state, strict=False)
        return report if report or not strict else right(module, state, strict=True)

    monkeypatch.setattr(modules_of_nn, "load_into", load_into)
    assert failures("state/states-of-some-names")
